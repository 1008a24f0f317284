"""The page beside a gateway: `sharegroup ui` as a process of its own, so that no page holds up the event loop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_END_S = 10.0


@contextmanager
def page_beside(config: Path, port: int, bootstrap_servers: str | None) -> Iterator[None]:
    """Have the page run at a port, unless that is 0, and end it at the end. It says itself why it cannot run."""
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
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
