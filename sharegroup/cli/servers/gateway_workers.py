"""Several gateways on one machine, each with its own ports, started by one command.

They work together like the gateways of a cluster. They do not share ports (SO_REUSEPORT), because each gateway stores
the state of its members. With a shared port, the connections of one member would go to different gateways. See
docs/gateways.md.
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

from sharegroup.log_fields import LogFields

if TYPE_CHECKING:
    from sharegroup.config import GatewayConfig

logger = logging.getLogger(__name__)

#: Difference between the base ports of two successive workers.
PORTS_EACH = 100
#: Delay before a worker is restarted, in seconds.
_PAUSE_S = 1.0


def worker_commands(
    config: Path, gateway: GatewayConfig, workers: int, bootstrap_servers: str | None, is_verbose: bool
) -> list[list[str]]:
    """Return the command line of each worker. A worker is a process that runs one gateway.

    `workers` is the number of workers. `gateway` has the ports of the first worker. For each further worker, the
    listener port is `PORTS_EACH` higher and the metrics port is one higher. If the listener port is 0, it is 0 for all
    workers, and the system chooses the ports. If the metrics port is 0, there is no metrics server.
    """
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
    """Keep the workers running until SIGTERM or SIGINT, then stop them. Return their highest exit code.

    `commands` has the command line of each worker. A worker that was killed by a signal is restarted. If a worker exits
    by itself, all other workers are stopped as well. The worker itself has logged the reason.
    """
    return asyncio.run(_run(commands))


async def _run(commands: Sequence[Sequence[str]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return max(await asyncio.gather(*(_keep_running(command, stop) for command in commands)))


async def _keep_running(command: Sequence[str], stop: asyncio.Event) -> int:
    """Run a worker until `stop` is set or it exits by itself. Return the exit code of its last process.

    If the worker is killed by a signal, it is restarted. If it exits by itself, this function sets `stop`, which ends
    the other workers.
    """
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
            return 0 if code == -signal.SIGTERM else abs(code)  # it may be stopped before it handles the signal
        logger.error("gateway worker was killed by signal %(count)d; restarting it", LogFields(count=-code))
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), _PAUSE_S)
        if stop.is_set():
            return 0
