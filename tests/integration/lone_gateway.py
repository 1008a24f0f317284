"""A gateway without a job behind it: for everything that needs the broker only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from sharegroup.testing.gateway_process import GatewayProcess


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
