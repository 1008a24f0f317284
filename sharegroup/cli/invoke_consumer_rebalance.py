"""`sharegroup invoke-consumer-rebalance`: a group is rebalanced now (KIP-345)."""

from __future__ import annotations

from typing import Annotated

import typer

from sharegroup.cli.options.asked import JobConfig, JobTimeout, asked
from sharegroup.cli.options.connection import BootstrapServer, CommandConfig, connected, reported
from sharegroup.cli.options.output import say


def invoke_consumer_rebalance(
    group: Annotated[str, typer.Option("--group", "--group-id", help="The group's id.")],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    config: JobConfig = None,
    timeout: JobTimeout = 120,
) -> None:
    """Rebalance a group now: static members that are away leave, and what they held goes to others."""
    if config is not None:
        from sharegroup.kafka_clients.row_topics import (
            member_administration,  # here, as Kafka's client takes a while to import
        )

        left = asked(config, lambda found: member_administration.invoke_consumer_rebalance(found, group, timeout))
    else:
        with reported("the rebalance"), connected(bootstrap_server, command_config, int(timeout * 1000)) as admin:
            left = tuple(admin.invoke_consumer_rebalance(group))
    for member_id, name in left:
        say(f"Static member {name} ({member_id}) was away and has left group {group}.")
    say(f"Group {group} was rebalanced.")
