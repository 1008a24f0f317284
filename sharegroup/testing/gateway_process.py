"""Runs the command `sharegroup gateway` as a child process, on free ports, with its log in a file.

    with GatewayProcess(config_path, log_path) as gateway:
        ShareConsumer({"bootstrap.servers": gateway.bootstrap_servers, "group.id": "orders"})

`terminate` sends SIGTERM and returns the exit code. `kill` sends SIGKILL.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import free_ports

_LISTENING = "gateway: listening"
_ADDRESS = re.compile(r"broker (\d+): (\S+?:\d+)")
#: The number of ports of a gateway: one before its base port, the base port, and one for each broker id from 1 to 9.
_PORTS = 11


class GatewayProcess(LoggedProcess):
    """A gateway process. `config_path` is the job's configuration file.

    `options` are further options of the command `sharegroup gateway`. `port` is the gateway's base port: its port for a
    broker is the base port plus the broker's id. 0 chooses a base port with `free_base_port`. A restarted gateway uses
    the same ports.
    """

    def __init__(self, config_path: Path, log_path: Path, *, port: int = 0, options: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "sharegroup.cli", "--verbose", "gateway", f"--config={config_path}"]
        super().__init__("gateway", [*command, *options, f"--port={port or free_base_port()}"], log_path)
        #: {id of an upstream broker: the gateway's address for it}
        self.addresses: dict[int, str] = {}

    def start(self) -> Self:
        """Start the process and wait until its ports are open. Raises LoggedProcessError if they do not open."""
        line = self._start_until(_LISTENING)
        self.addresses = {int(node_id): address for node_id, address in _ADDRESS.findall(line)}
        return self

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all ports of the gateway, separated by commas."""
        return ",".join(self.addresses.values())

    @property
    def standby_address(self) -> str:
        """The address that this gateway opens for clients of other gateways, on the port before its base port."""
        node_id, address = next(iter(self.addresses.items()))
        host, _, port = address.rpartition(":")
        return f"{host}:{int(port) - node_id - 1}"


def free_base_port() -> int:
    """Return a base port for a gateway. It belongs to this process (`ports.py`).

    The port before it (the gateway's standby port) and the next nine ports (for brokers with the ids 1 to 9) are free
    and belong to this process too.
    """
    return free_ports(_PORTS)[1]
