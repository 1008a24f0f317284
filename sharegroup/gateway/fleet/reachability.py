"""Checks whether other gateways accept connections. A gateway may have died without announcing that it stops."""

import asyncio
import logging

from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.gateway_rows import GatewayAddress

logger = logging.getLogger(__name__)

#: Timeout and number of attempts. They are small because clients wait for the result. They must be large enough for a
#: busy gateway to respond. If a busy gateway counted as dead, clients would be sent to another gateway, and back again
#: after the next announcement.
CONNECT_TIMEOUT_S, ATTEMPTS = 0.25, 3
#: How long a result is reused, because all clients of a dead gateway arrive at the same time.
FRESH_S = 0.1


class Reachability:
    """Checks addresses by opening a connection and closing it again. Must be used on one event loop."""

    def __init__(self) -> None:
        self._checks: dict[GatewayAddress, tuple[float, asyncio.Task[bool]]] = {}

    async def __call__(self, address: GatewayAddress) -> bool:
        """Return whether the address accepts connections. Results are reused for `FRESH_S` seconds."""
        now = asyncio.get_running_loop().time()
        self._checks = {key: check for key, check in self._checks.items() if now - check[0] < FRESH_S}
        if address not in self._checks:
            self._checks[address] = now, asyncio.ensure_future(_connects(address))
        return await asyncio.shield(self._checks[address][1])

    def close(self) -> None:
        for _, check in self._checks.values():
            check.cancel()


async def _connects(address: GatewayAddress) -> bool:
    problem: object = "no response"
    for _ in range(ATTEMPTS):
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(*address), CONNECT_TIMEOUT_S)
        except TimeoutError:
            continue
        except OSError as error:
            problem = error
            break
        writer.close()
        return True
    host, port = address
    logger.info("gateway %(gateway)s cannot be reached: %(error)s", LogFields(gateway=f"{host}:{port}", error=problem))
    return False
