"""Gateways with a configuration of their own: to the main job, or without a job, where the broker is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from sharegroup.config import Config, GatewayConfig, JobConfig
from sharegroup.gateway.server import Gateway, running_gateway
from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.share_group_job import ShareGroupJobRun
from tests.processes.served_clients import Client


def lone_gateway(
    directory: Path, bootstrap_servers: str, job: Mapping[str, object] | None = None, **gateway: object
) -> GatewayProcess:
    """To be started; `gateway` are keys of its section, with _ for dots, `job` more keys of that one as they are."""
    keys = {key.replace("_", "."): value for key, value in gateway.items()}
    config = {
        "job": {"bootstrap.servers": bootstrap_servers, "tables.path": str(directory / "tables"), **(job or {})},
        "gateway": {"gateway.job.timeout.ms": 100, **keys},
    }
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump(config))
    return GatewayProcess(path, directory / "gateway.log")


def port_of(gateway: GatewayProcess) -> int:
    return int(gateway.bootstrap_servers.rpartition(":")[2])


@asynccontextmanager
async def serving(
    bootstrap_servers: str, gateway: Mapping[str, object] | None = None
) -> AsyncIterator[tuple[Gateway, Client]]:
    """A gateway without a job in this process, and a client that has not connected yet."""
    config = replace(
        Config(),
        job=JobConfig.model_validate({"bootstrap.servers": bootstrap_servers}),
        gateway=GatewayConfig.model_validate({"gateway.listener.port": 0, **(gateway or {})}),
    )
    async with running_gateway(config) as running:
        ((_, port),) = running.addresses.values()
        client = Client(port, [])
        try:
            yield running, client
        finally:
            await client.close_all()


@contextmanager
def gateway_to_job(
    job: ShareGroupJobRun, directory: Path, keys: Mapping[str, object], options: Sequence[str] = ()
) -> Iterator[GatewayProcess]:
    """A gateway with `keys` to a job, which ends without an error."""
    config = yaml.safe_load(job.config_path.read_text())
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump({**config, "gateway": dict(keys)}))
    with GatewayProcess(path, directory / "gateway.log", options=options) as process:
        yield process
        check_end(process)


def check_end(gateway: GatewayProcess) -> None:
    """End a gateway, and check that it has logged no error."""
    assert gateway.terminate() == 0
    assert " ERROR " not in gateway.log_path.read_text()
