"""The options of `sharegroup share-groups`, and which action they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.options.connection import (
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    CommandConfig,
    Timeout,
    connected,
    reported,
)
from sharegroup.cli.options.output import Output, OutputFormat, OutputOption
from sharegroup.cli.options.watching import watching
from sharegroup.cli.share_groups.arguments import Arguments


def share_groups(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    list_: Annotated[bool, typer.Option("--list", help="List share groups; with --state a table.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Offsets and lag, or what is named below.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete groups that have no members.")] = False,
    delete_offsets: Annotated[
        bool, typer.Option("--delete-offsets", help="Have a group without members forget topics.")
    ] = False,
    reset_offsets: Annotated[
        bool, typer.Option("--reset-offsets", help="Set start offsets of a group without members.")
    ] = False,
    group: Annotated[list[str] | None, typer.Option(help="The share group's id; may be repeated.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All share groups.")] = False,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic, or TOPIC:0,1,2 for a reset; may be repeated.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics that the group has a state of.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Describe start offsets and lag (the default).")] = False,
    members: Annotated[bool, typer.Option("--members", help="Describe members.")] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="[STATES]", help="Describe states; with --list, of these states alone."),
    ] = None,
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="Describe ranges in flight; from the tables (--config).")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="All that happened to a record; from the tables (--config).")
    ] = False,
    offset: Annotated[int | None, typer.Option(min=0, help="The record's offset, for --history.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="More columns.")] = False,
    lag: Annotated[str | None, typer.Option(help="Only partitions with such a lag: '>0'.")] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the end of the log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="Reset to where it is; else to the end.")] = False,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DDThh:mm:ss.sss", help="Reset to the first record from then on.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option(help="Reset to an offset, within the log.")] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Reset to what a CSV file says: [group,]topic,partition,offset.")
    ] = None,
    export: Annotated[bool, typer.Option("--export", help="Print a reset as --from-file reads it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what a reset would do.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do the reset.")] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_MS,
    output: OutputOption = OutputFormat.TABLE,
    config: Annotated[
        Path | None, typer.Option(help="The job's configuration file, which says where the tables are.")
    ] = None,
    watch: Annotated[
        str | None, typer.Option("--watch", metavar="[SECONDS]", help="Again and again, until Ctrl-C.")
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
    with reported("share group command"):
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

        return watching(lambda: describe_from_tables(arguments, output), arguments.watch_s)
    with connected(bootstrap_server, command_config, timeout_ms) as admin:
        if arguments.list_:
            from sharegroup.cli.share_groups.listing import list_groups

            return watching(lambda: list_groups(admin, arguments, output), arguments.watch_s)
        if arguments.describe:
            from sharegroup.cli.share_groups.describing import describe

            return watching(lambda: describe(admin, arguments, output), arguments.watch_s)
        if arguments.reset_offsets:
            from sharegroup.cli.share_groups.resetting import reset_offsets

            return reset_offsets(admin, arguments, output)
        from sharegroup.cli.share_groups.deleting import delete_groups, delete_offsets

        return (delete_groups if arguments.delete else delete_offsets)(admin, arguments, output)
