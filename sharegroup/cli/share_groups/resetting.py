"""`share-groups --reset-offsets`."""

import typer
from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.cli.options.connection import CommandError
from sharegroup.cli.options.output import Column, Output, OutputFormat, warn
from sharegroup.cli.share_groups.arguments import Arguments
from sharegroup.cli.share_groups.reset_plan import reset_plan, write_plan
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.admin.errors import error_text

_COLUMNS = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("NEW-OFFSET", "new_offset"),
)


def reset_offsets(admin: ShareGroupAdmin, arguments: Arguments, output: Output) -> int:
    """Print the new start offsets and, with `--execute`, set them. If the group does not exist, `--execute` creates it.

    Return exit code 1 if an offset could not be set, otherwise 0. Print such an offset as an error. Raise CommandError
    if the group has members or if there is no offset to set.
    """
    (group_id,) = arguments.group
    group = admin.describe_groups([group_id], missing_ok=True).get(group_id)
    if group is not None and group.members:
        raise CommandError(f"Share group '{group_id}' is not empty.")
    plan = reset_plan(admin, arguments)
    if not plan:
        raise CommandError(f"Share group '{group_id}' has no offset information.")
    errors: dict[TopicPartition, KafkaError | None] = {}
    if arguments.execute:
        errors = admin.alter_group_offsets(group_id, plan)
    done = {key: offset for key, offset in plan.items() if errors.get(key) is None}
    for key, error in errors.items():
        if error is not None:
            warn(f"Error: {key.topic}-{key.partition}: {error_text(error)}")
    if arguments.export and output.kind is OutputFormat.TABLE:
        typer.echo(write_plan(done), nl=False)
    else:
        rows = [
            {"group": group_id, "topic": key.topic, "partition": key.partition, "new_offset": offset}
            for key, offset in done.items()
        ]
        output.tables(_COLUMNS, [rows])
    return 1 if any(errors.values()) else 0
