"""The command `sharegroup invoke-consumer-rebalance` (KIP-345)."""

from typing import Annotated

import typer

from sharegroup.cli.options.config_option import JobConfig, JobTimeout, run_or_exit
from sharegroup.cli.options.connection import BootstrapServer, CommandConfig, admin_client, reporting_errors
from sharegroup.cli.options.output import print_line


def invoke_consumer_rebalance(
    group: Annotated[str, typer.Option("--group", "--group-id", help="Group id.")],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    config: JobConfig = None,
    timeout: JobTimeout = 120,
) -> None:
    """Rebalance a group now. Remove static members that left for a restart or send no heartbeats.

    The records of the removed members are delivered to others.
    """
    if config is not None:
        from sharegroup.kafka_clients.row_topics import (
            group_administration,  # deferred, because the import of kafka-python is slow
        )

        left = run_or_exit(config, lambda found: group_administration.invoke_consumer_rebalance(found, group, timeout))
    else:
        with (
            reporting_errors("the rebalance"),
            admin_client(bootstrap_server, command_config, int(timeout * 1000)) as admin,
        ):
            left = tuple(admin.invoke_consumer_rebalance(group))
    for member_id, name in left:
        print_line(f"Static member {name} ({member_id}) was absent and was removed from group {group}.")
    print_line(f"Group {group} was rebalanced.")
