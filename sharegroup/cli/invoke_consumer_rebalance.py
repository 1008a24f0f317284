"""`sharegroup invoke-consumer-rebalance`: a group is rebalanced now (KIP-345)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.asked import asked
from sharegroup.cli.output import say


def invoke_consumer_rebalance(
    config: Annotated[Path, typer.Option(help="The configuration file of the job, or of all cells.")],
    group: Annotated[str, typer.Option("--group", "--group-id", help="The group's id.")],
    timeout: Annotated[float, typer.Option(help="How long to wait for the job's answer, in seconds.")] = 120,
) -> None:
    """Rebalance a group now: static members that are away leave, and what they held goes to others."""
    from sharegroup.topics import member_administration  # here, as Kafka's client takes a while to import

    removed = asked(config, lambda found: member_administration.invoke_consumer_rebalance(found, group, timeout))
    for member_id, name in removed:
        say(f"Static member {name} ({member_id}) was away and has left group {group}.")
    say(f"Group {group} was rebalanced.")
