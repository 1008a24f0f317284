"""The command `sharegroup` and its subcommands.

Each subcommand imports slow modules, such as kafka-python and pyarrow, only when it runs. This keeps `--help` fast.
"""

import logging
from typing import Annotated

import typer

from sharegroup.cli.browse import browse
from sharegroup.cli.configs import configs
from sharegroup.cli.consume import consume
from sharegroup.cli.hash_password import hash_password
from sharegroup.cli.invoke_consumer_rebalance import invoke_consumer_rebalance
from sharegroup.cli.move_group import move_group
from sharegroup.cli.options.optional_values import OptionalValues
from sharegroup.cli.options.version_option import with_version
from sharegroup.cli.remove_member import remove_member
from sharegroup.cli.servers.broker import broker
from sharegroup.cli.servers.gateway import gateway
from sharegroup.cli.servers.job import job
from sharegroup.cli.servers.ui import ui
from sharegroup.cli.share_groups.command import share_groups
from sharegroup.cli.show_config import config
from sharegroup.cli.sql import sql
from sharegroup.cli.top import top
from sharegroup.kafka_clients.kafka_client_log import set_up_kafka_client_log
from sharegroup.kafka_clients.line_limit import LineLimit
from sharegroup.log_fields import log_formatter

app = typer.Typer(no_args_is_help=True, help="Kafka share groups on Spark and Delta.")


@app.callback()
@with_version
def _settings(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log informational messages as well as warnings.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(LineLimit())
    handler.setFormatter(log_formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    set_up_kafka_client_log(logging.ERROR)


app.command()(with_version(gateway))
app.command()(with_version(job))
app.command()(with_version(move_group))
app.command(cls=OptionalValues)(with_version(share_groups))
app.command()(with_version(configs))
app.command()(with_version(browse))
app.command()(with_version(consume))
app.command()(with_version(top))
app.command()(with_version(invoke_consumer_rebalance))
app.command()(with_version(remove_member))
app.command()(with_version(ui))
app.command()(with_version(sql))
app.command()(with_version(config))
app.command()(with_version(hash_password))
app.command()(with_version(broker))


def main() -> None:
    """Run the command line."""
    app()
