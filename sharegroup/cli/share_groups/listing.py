"""`share-groups --list`: prints group ids or, with `--state`, a table of groups and their states."""

from sharegroup.cli.options.output import Column, Output, OutputFormat
from sharegroup.cli.share_groups.arguments import Arguments, parse_states
from sharegroup.kafka_clients.admin import ShareGroupAdmin

_COLUMNS = (Column("GROUP", "group"), Column("STATE", "state"))


def list_groups(admin: ShareGroupAdmin, arguments: Arguments, output: Output) -> None:
    """Print all share groups, or those in the requested states, sorted by id."""
    listed = admin.list_groups(states=parse_states(arguments.state or ""))
    if arguments.state is None and output.kind is OutputFormat.TABLE:
        for group in listed:
            output.print_line(group.group_id)
        return
    rows = [{"group": group.group_id, "state": group.group_state} for group in listed]
    output.tables(_COLUMNS, [rows], blank_line=False)
