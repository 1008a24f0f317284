"""The command `sharegroup gateway`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.config_option import config_of
from sharegroup.cli.page_process import page_beside

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
    metrics_port: Annotated[int | None, typer.Option(help="Instead of gateway.metrics.port; 0: no metrics.")] = None,
    ui_port: Annotated[int | None, typer.Option(help="Instead of gateway.ui.port; 0: no page.")] = None,
) -> None:
    """Serve Kafka's wire protocol, so that KIP-932 clients connect: their bootstrap address is this port."""
    from sharegroup.cli.gateway_server import run_gateway

    overridden = _overridden(config_of(config), port, bootstrap_servers, metrics_port)
    with page_beside(config, overridden.gateway.ui_port if ui_port is None else ui_port, bootstrap_servers):
        code = run_gateway(overridden)
    raise typer.Exit(code)


def _overridden(config: Config, port: int | None, bootstrap_servers: str | None, metrics_port: int | None) -> Config:
    given = {"listener_port": port, "metrics_port": metrics_port}
    gateway_config, job = config.gateway, config.job
    gateway_config = gateway_config.model_copy(update={name: n for name, n in given.items() if n is not None})
    if bootstrap_servers is not None:
        job = job.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return dataclasses.replace(config, job=job, gateway=gateway_config)
