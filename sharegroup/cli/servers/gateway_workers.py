"""Several gateways on one machine, each with its ports, by one command: they know each other as those of a cluster do.

They do not share ports (SO_REUSEPORT): what a gateway answers at once rests on what it has seen of a member itself, and
a member's connections to one port would come to different processes. docs/gateways.md has it at length.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharegroup.config import GatewayConfig

logger = logging.getLogger(__name__)

#: From one worker's base port to the next one's.
PORTS_EACH = 100
#: Before a worker is started again.
_PAUSE_S = 1.0


def worker_commands(
    config: Path, gateway: GatewayConfig, workers: int, bootstrap_servers: str | None, is_verbose: bool
) -> list[list[str]]:
    """The command line of each worker; `gateway` has the first one's ports, 0 stays 0."""
    command = [sys.executable, "-m", "sharegroup.cli", *(["--verbose"] if is_verbose else []), "gateway"]
    command += [f"--config={config}", "--ui-port=0"]
    if bootstrap_servers is not None:
        command.append(f"--bootstrap-servers={bootstrap_servers}")
    port, metrics_port = gateway.listener_port, gateway.metrics_port
    return [
        [
            *command,
            f"--port={port + number * PORTS_EACH if port else 0}",
            f"--metrics-port={metrics_port + number if metrics_port else 0}",
        ]
        for number in range(workers)
    ]


def run_workers(commands: Sequence[Sequence[str]]) -> int:
    """Keep the workers running until SIGTERM or SIGINT, which each is told; the exit code.

    One that a signal has killed is started again. One that ends by itself has said what is wrong: then all end, and its
    code is returned.
    """
    return asyncio.run(_run(commands))


async def _run(commands: Sequence[Sequence[str]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return max(await asyncio.gather(*(_keep_running(command, stop) for command in commands)))


async def _keep_running(command: Sequence[str], stop: asyncio.Event) -> int:
    """The exit code of a worker's last process; `stop` ends it, and is set when it ends by itself."""
    while True:
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        ended, stopped = asyncio.ensure_future(process.wait()), asyncio.ensure_future(stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            process.terminate()
        code = await ended
        if stop.is_set() or code >= 0:
            stop.set()
            return abs(code)
        logger.error("a worker was ended by signal %d, and is started again", -code)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), _PAUSE_S)
        if stop.is_set():
            return 0
