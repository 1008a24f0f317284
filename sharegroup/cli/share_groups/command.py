"""The options of `sharegroup share-groups`, and the action that they select."""

from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.options.connection import (
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    CommandConfig,
    Timeout,
    admin_client,
    reporting_errors,
)
from sharegroup.cli.options.output import Output, OutputFormat, OutputOption
from sharegroup.cli.options.watching import repeat
from sharegroup.cli.share_groups.arguments import Arguments


def share_groups(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    list_: Annotated[bool, typer.Option("--list", help="List share groups; with --state, with their states.")] = False,
    describe: Annotated[
        bool,
        typer.Option("--describe", help="Describe groups: offsets and lag, or the aspect that another option selects."),
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete groups that have no members.")] = False,
    delete_offsets: Annotated[
        bool, typer.Option("--delete-offsets", help="Delete the offsets of topics in a group that has no members.")
    ] = False,
    reset_offsets: Annotated[
        bool, typer.Option("--reset-offsets", help="Set start offsets of a group that has no members.")
    ] = False,
    group: Annotated[list[str] | None, typer.Option(help="Group id. May be repeated.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Apply to all share groups.")] = False,
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic; for a reset also TOPIC:0,1,2. May be repeated.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Apply to all topics of the group.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Describe start offsets and lag (default).")] = False,
    members: Annotated[bool, typer.Option("--members", help="Describe members.")] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="[STATES]",
            help="With --describe: show states. With --list: show states, and list only groups in STATES if given.",
        ),
    ] = None,
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="Describe ranges in flight, from the tables (--config).")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Describe all transitions of a record, from the tables (--config).")
    ] = False,
    offset: Annotated[int | None, typer.Option(min=0, help="Offset of the record, for --history.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show more columns.")] = False,
    lag: Annotated[str | None, typer.Option(help="Show only partitions whose lag matches, such as '>0'.")] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the end of the log.")] = False,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="Reset to the current start offset; without one, to the end of the log."),
    ] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DDThh:mm:ss.sss", help="Reset to the first record at or after a time (UTC)."),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(help="Reset to an offset, or to the nearest offset of the log.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Reset to the offsets in a CSV file: [group,]topic,partition,offset.")
    ] = None,
    export: Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV, for --from-file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets without setting them.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Set the new offsets.")] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_MS,
    output: OutputOption = OutputFormat.TABLE,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file of the job, which has the path of the tables.")
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option("--watch", metavar="[SECONDS]", help="Repeat every 2 or SECONDS seconds, until Ctrl-C."),
    ] = None,
) -> None:
    """List, describe, reset and delete share groups, as kafka-share-groups.sh does."""
    arguments = Arguments(
        list_=list_,
        describe=describe,
        delete=delete,
        delete_offsets=delete_offsets,
        reset_offsets=reset_offsets,
        group=tuple(group or ()),
        all_groups=all_groups,
        topic=tuple(topic or ()),
        all_topics=all_topics,
        members=members,
        offsets=offsets,
        state=state,
        in_flight=in_flight,
        history=history,
        verbose=verbose,
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_datetime=to_datetime,
        to_offset=to_offset,
        from_file=None if from_file is None else str(from_file),
        export=export,
        dry_run=dry_run,
        execute=execute,
        lag=lag,
        offset=offset,
        config=None if config is None else str(config),
        watch=watch,
    )
    with reporting_errors("share group command"):
        arguments.check()
        code = _run(arguments, Output(output), bootstrap_server, command_config, timeout)
    raise typer.Exit(code)


def _run(
    arguments: Arguments,
    output: Output,
    bootstrap_server: str | None,
    command_config: Path | None,
    timeout_ms: int,
) -> int:
    if arguments.describe and arguments.kind.needs_tables:
        from sharegroup.cli.share_groups.from_tables import describe_from_tables

        return repeat(lambda: describe_from_tables(arguments, output), arguments.watch_s)
    with admin_client(bootstrap_server, command_config, timeout_ms) as admin:
        if arguments.list_:
            from sharegroup.cli.share_groups.listing import list_groups

            return repeat(lambda: list_groups(admin, arguments, output), arguments.watch_s)
        if arguments.describe:
            from sharegroup.cli.share_groups.describing import describe

            return repeat(lambda: describe(admin, arguments, output), arguments.watch_s)
        if arguments.reset_offsets:
            from sharegroup.cli.share_groups.resetting import reset_offsets

            return reset_offsets(admin, arguments, output)
        from sharegroup.cli.share_groups.deleting import delete_groups, delete_offsets

        return (delete_groups if arguments.delete else delete_offsets)(admin, arguments, output)
