"""The command `sharegroup` and its subcommands."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Annotated

import typer

from sharegroup.cli.gateway import run_gateway
from sharegroup.cli.invoke_consumer_rebalance import invoke_consumer_rebalance
from sharegroup.cli.job import run_job
from sharegroup.cli.move_group import run_move
from sharegroup.cli.remove_member import remove_member
from sharegroup.config import NO_CELL, Config, load_config
from sharegroup.errors import InvalidConfigError
from sharegroup.testkit.jars import JarsError
from sharegroup.topics.kafka_client_log import set_up_kafka_client_log
from sharegroup.topics.line_limit import LineLimit

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Kafka share groups on Spark and Delta.")


@app.callback()
def _settings(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, not only what is wrong.")] = False,
) -> None:
    lines = logging.StreamHandler()
    lines.addFilter(LineLimit())
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        handlers=[lines],
    )
    set_up_kafka_client_log(logging.ERROR)


@app.command()
def gateway(
    config: Annotated[
        Path, typer.Option(help="The job's configuration file; its section `gateway` is this command's.")
    ],
    port: Annotated[int | None, typer.Option(help="Instead of gateway.listener.port; 0: any free port.")] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Instead of the file's bootstrap.servers (the upstream brokers).")
    ] = None,
) -> None:
    """Serve Kafka's wire protocol, so that KIP-932 clients connect: their bootstrap address is this port."""
    raise typer.Exit(run_gateway(_overridden(_load(config), port, bootstrap_servers)))


@app.command()
def job(
    config: Annotated[Path, typer.Option(help="The job's configuration file.")],
    driver_memory: Annotated[str, typer.Option(help="Of Spark's JVM.")] = "1g",
    cell: Annotated[str, typer.Option(help="The cell whose job this is, where the file has cells.")] = NO_CELL,
) -> None:
    """Run the share-group job on this machine; on a cluster, spark-submit runs jobs/run_share_group.py."""
    try:
        run_job(config, _load(config).of_cell(cell).job, driver_memory, cell)
    except JarsError as error:
        typer.echo(f"job: {error}", err=True)
        raise typer.Exit(1) from None


@app.command()
def move_group(
    config: Annotated[Path, typer.Option(help="The configuration file, which has the group in its new cell.")],
    group: Annotated[str, typer.Option(help="The group's id.")],
    source: Annotated[
        str, typer.Option("--from", help="The cell whose tables have the group; left out: the job without cells.")
    ] = NO_CELL,
) -> None:
    """Move a group to another cell, while its members and the jobs of both cells are stopped."""
    _load(config)
    run_move(config, group, source)


app.command()(invoke_consumer_rebalance)
app.command()(remove_member)


def _load(path: Path) -> Config:
    try:
        return load_config(path)
    except InvalidConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _overridden(config: Config, port: int | None, bootstrap_servers: str | None) -> Config:
    gateway_config, job = config.gateway, config.job
    if port is not None:
        gateway_config = gateway_config.model_copy(update={"listener_port": port})
    if bootstrap_servers is not None:
        job = job.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return dataclasses.replace(config, job=job, gateway=gateway_config)


def main() -> None:
    """Run the command line."""
    app()
