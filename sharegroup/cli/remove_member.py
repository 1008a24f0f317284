"""`sharegroup remove-member`: members leave their group now (KIP-345)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.asked import asked
from sharegroup.cli.output import say, warn
from sharegroup.errors import error_name


def remove_member(
    config: Annotated[Path, typer.Option(help="The configuration file of the job, or of all cells.")],
    group: Annotated[str, typer.Option(help="The group's id.")],
    member: Annotated[list[str] | None, typer.Option(help="A member's id; may be repeated.")] = None,
    instance: Annotated[list[str] | None, typer.Option(help="A static member's name; may be repeated.")] = None,
    timeout: Annotated[float, typer.Option(help="How long to wait for the job's answer, in seconds.")] = 120,
) -> None:
    """Remove members from a group now; what they hold goes to others. One whose process lives may join again."""
    from sharegroup.protocol.share_group_requests import MemberIdentity
    from sharegroup.topics import member_administration  # here, as Kafka's client takes a while to import

    named = [MemberIdentity(member_id, None) for member_id in member or ()]
    named += [MemberIdentity("", name) for name in instance or ()]
    if not named:
        raise typer.BadParameter("name at least one member, by --member or --instance")
    errors = asked(config, lambda found: member_administration.remove_members(found, group, named, timeout))
    for member_id, name, code, message in errors:
        who = member_id if name is None else f"{name} ({member_id})"
        if code:
            warn(message or error_name(code))
        else:
            say(f"Member {who} was removed from group {group}.")
    if any(error.error_code for error in errors):
        raise typer.Exit(1)
