"""The command `sharegroup remove-member` (KIP-345)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.config_option import JobConfig, JobTimeout, run_or_exit
from sharegroup.cli.options.connection import BootstrapServer, CommandConfig, admin_client, reporting_errors
from sharegroup.cli.options.output import print_line, warn
from sharegroup.errors import error_name

if TYPE_CHECKING:
    from sharegroup.kafka_clients.admin import MemberIdentity


def remove_member(
    group: Annotated[str, typer.Option(help="Group id.")],
    member: Annotated[list[str] | None, typer.Option(help="Member id. May be repeated.")] = None,
    instance: Annotated[
        list[str] | None, typer.Option(help="group.instance.id of a static member. May be repeated.")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    config: JobConfig = None,
    timeout: JobTimeout = 120,
) -> None:
    """Remove members from a group now. Their records are delivered to others. A running member may join again."""
    from sharegroup.kafka_clients.admin import MemberIdentity
    from sharegroup.kafka_clients.admin.errors import error_text

    named = [MemberIdentity(member_id) for member_id in member or ()]
    named += [MemberIdentity("", name) for name in instance or ()]
    if not named or MemberIdentity() in named:
        raise typer.BadParameter("specify at least one member with --member or --instance")
    if config is not None:
        problems = _by_rows(config, group, named, timeout)
    else:
        with (
            reporting_errors("the removal"),
            admin_client(bootstrap_server, command_config, int(timeout * 1000)) as admin,
        ):
            found = admin.remove_members(group, named)
        problems = {of: None if error is None else f"{_name(of)}: {error_text(error)}" for of, error in found.items()}
    for identity, problem in problems.items():
        if problem:
            warn(problem)
        else:
            print_line(f"Member {_name(identity)} was removed from group {group}.")
    if any(problems.values()):
        raise typer.Exit(1)


def _by_rows(
    config: Path, group: str, named: list[MemberIdentity], timeout_s: float
) -> dict[MemberIdentity, str | None]:
    from sharegroup.kafka_clients.admin import MemberIdentity
    from sharegroup.kafka_clients.row_topics import group_administration

    errors = run_or_exit(config, lambda found: group_administration.remove_members(found, group, named, timeout_s))
    return {
        MemberIdentity(member_id, name): message or error_name(code) if code else None
        for member_id, name, code, message in errors
    }


def _name(member: MemberIdentity) -> str:
    member_id, name = member
    return member_id if name is None else f"{name} ({member_id})" if member_id else name
