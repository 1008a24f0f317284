"""Runs the gateway until a signal stops it."""

import asyncio
import gc
import logging
import signal
import sys

from sharegroup.config import Config
from sharegroup.errors import ShareGroupError
from sharegroup.gateway.server import running_gateway
from sharegroup.security.audit import set_up_audit_log

logger = logging.getLogger(__name__)


def run_gateway(config: Config) -> int:
    """Run the gateway until SIGTERM or SIGINT, let its clients finish (drain), and return the exit code.

    If the gateway fails, print the error and return 1. It fails, for example, if the brokers or a port are not
    available. Otherwise return 0.
    """
    set_up_audit_log()
    try:
        asyncio.run(_serve(config))
    except (ShareGroupError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running_gateway(config) as gateway:
        served = [f"broker {node}: {host}:{port}" for node, (host, port) in sorted(gateway.addresses.items())]
        if base := config.gateway.listener_port:
            served.insert(0, f"bootstrap port {base}")
        gc.collect()
        gc.freeze()  # modules and configuration stay in memory and would slow each garbage collection
        print(f"gateway: listening ({', '.join(served)})", flush=True)
        await stop.wait()
        await gateway.drain()
