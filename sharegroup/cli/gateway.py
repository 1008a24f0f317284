"""The command `sharegroup gateway`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.config_option import config_of

if TYPE_CHECKING:
    from sharegroup.config import Config


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
    from sharegroup.cli.gateway_server import run_gateway

    raise typer.Exit(run_gateway(_overridden(config_of(config), port, bootstrap_servers)))


def _overridden(config: Config, port: int | None, bootstrap_servers: str | None) -> Config:
    gateway_config, job = config.gateway, config.job
    if port is not None:
        gateway_config = gateway_config.model_copy(update={"listener_port": port})
    if bootstrap_servers is not None:
        job = job.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return dataclasses.replace(config, job=job, gateway=gateway_config)
