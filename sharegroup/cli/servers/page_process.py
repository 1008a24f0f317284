"""Runs the web page of a gateway, `sharegroup ui`, in its own process. So it cannot block the gateway's event loop."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOP_TIMEOUT_S = 10.0


@contextmanager
def running_page(config: Path, port: int, bootstrap_servers: str | None) -> Iterator[None]:
    """Run the page on a port during the `with` block, unless the port is 0. The page logs its own errors."""
    if not port:
        yield
        return
    command = [sys.executable, "-m", "sharegroup.cli", "ui", "--config", str(config), "--port", str(port)]
    if bootstrap_servers is not None:
        command += ["--bootstrap-servers", bootstrap_servers]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
