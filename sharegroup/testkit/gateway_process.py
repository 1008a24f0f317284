"""The gateway as people start it: `sharegroup gateway` as a child process, on free ports, with its log in a file.

    with GatewayProcess(config_path, log_path) as gateway:
        ShareConsumer({"bootstrap.servers": gateway.bootstrap_servers, "group.id": "orders"})

`terminate` sends SIGTERM and returns the exit code; `kill` is SIGKILL.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sharegroup.testkit.logged_process import LoggedProcess

if TYPE_CHECKING:
    from typing import Self

_LISTENING = "gateway: listening"
_ADDRESS = re.compile(r"broker (\d+): (\S+?:\d+)")


class GatewayProcess(LoggedProcess):
    """Starts and ends a gateway. `config_path` is the job's file; `options` go to the command.

    `port` is the first one; 0: any free ones, and the first of them again when the gateway is started again.
    """

    def __init__(self, config_path: Path, log_path: Path, *, port: int = 0, options: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "sharegroup.cli", "--verbose", "gateway", f"--config={config_path}"]
        super().__init__("gateway", [*command, *options, f"--port={port}"], log_path)
        #: {id of an upstream broker: where the gateway stands in for it}
        self.addresses: dict[int, str] = {}

    def start(self) -> Self:
        """Start the process; returns when its ports are open. Raises LoggedProcessError."""
        line = self._start_until(_LISTENING)
        self.addresses = {int(node_id): address for node_id, address in _ADDRESS.findall(line)}
        self._command[-1] = f"--port={min(int(address.rpartition(':')[2]) for address in self.addresses.values())}"
        return self

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all its ports, with commas."""
        return ",".join(self.addresses.values())
