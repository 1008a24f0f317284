"""Runs the web page of a gateway, `sharegroup ui`, in a process of its own.

In this way, the page cannot block the gateway's event loop.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOP_TIMEOUT_S = 10.0


@contextmanager
def running_page(config: Path, port: int, bootstrap_servers: str | None) -> Iterator[None]:
    """Run the web page in a child process during the `with` block. If `port` is 0, run no page.

    If the page fails, the child process logs the error, and this process continues.
    """
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
