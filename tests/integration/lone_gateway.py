"""Gateways with a configuration of their own: to the main job, or without a job, where the broker is enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.share_group_job import ShareGroupJobRun


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
