"""The command `sharegroup gateway`."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.config_option import load_or_exit
from sharegroup.cli.servers.page_process import running_page
from sharegroup.cli.servers.without_pandas import disable_pandas

if TYPE_CHECKING:
    from sharegroup.config import Config


def gateway(
    config: Annotated[Path, typer.Option(help="Configuration file of the job, with the section `gateway`.")],
    port: Annotated[int | None, typer.Option(help="Overrides gateway.listener.port. 0: any free port.")] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(help="Overrides bootstrap.servers (the brokers).")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Overrides gateway.metrics.port. 0: disabled.")] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Number of gateways to run. The ports of each are 100 above those of the previous one."
        ),
    ] = 1,
    ui_port: Annotated[int | None, typer.Option(help="Overrides gateway.ui.port. 0: disabled.")] = None,
) -> None:
    """Run a gateway, to which Kafka's share consumers (KIP-932) and other clients connect."""
    overridden = _overridden(load_or_exit(config), port, bootstrap_servers, metrics_port)
    with running_page(config, overridden.gateway.ui_port if ui_port is None else ui_port, bootstrap_servers):
        code = _run(overridden) if workers == 1 else _run_all(config, overridden, workers, bootstrap_servers)
    raise typer.Exit(code)


def _run(config: Config) -> int:
    disable_pandas()
    from sharegroup.cli.servers.gateway_server import run_gateway

    return run_gateway(config)


def _run_all(path: Path, config: Config, workers: int, bootstrap_servers: str | None) -> int:
    from sharegroup.cli.servers.gateway_workers import run_workers, worker_commands

    is_verbose = logging.getLogger().isEnabledFor(logging.INFO)
    return run_workers(worker_commands(path, config.gateway, workers, bootstrap_servers, is_verbose))


def _overridden(config: Config, port: int | None, bootstrap_servers: str | None, metrics_port: int | None) -> Config:
    given = {"listener_port": port, "metrics_port": metrics_port}
    gateway_config, job = config.gateway, config.job
    gateway_config = gateway_config.model_copy(update={name: n for name, n in given.items() if n is not None})
    if bootstrap_servers is not None:
        job = job.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return dataclasses.replace(config, job=job, gateway=gateway_config)
