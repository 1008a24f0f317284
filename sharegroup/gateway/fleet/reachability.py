"""Whether another gateway takes connections now: its process may have ended before it could say so."""

from __future__ import annotations

import asyncio
import logging

from sharegroup.protocol.rows.gateway_rows import GatewayAddress

logger = logging.getLogger(__name__)

#: A machine that is gone answers nothing; clients wait meanwhile. Who is merely busy, here or there, is not to be taken
#: for gone: clients would be sent elsewhere, and back again when it next says that it is there.
CONNECT_TIMEOUT_S, ATTEMPTS = 0.25, 3
#: So long an answer counts, for all clients of a gateway that has died, who come at the same time.
FRESH_S = 0.1


class Reachability:
    """Connects, and closes the connection again. To be used on one event loop."""

    def __init__(self) -> None:
        self._looks: dict[GatewayAddress, tuple[float, asyncio.Task[bool]]] = {}

    async def __call__(self, address: GatewayAddress) -> bool:
        """Whether something listens there."""
        now = asyncio.get_running_loop().time()
        self._looks = {key: look for key, look in self._looks.items() if now - look[0] < FRESH_S}
        if address not in self._looks:
            self._looks[address] = now, asyncio.ensure_future(_connects(address))
        return await asyncio.shield(self._looks[address][1])

    def close(self) -> None:
        """Look no more."""
        for _, look in self._looks.values():
            look.cancel()


async def _connects(address: GatewayAddress) -> bool:
    for _ in range(ATTEMPTS):
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(*address), CONNECT_TIMEOUT_S)
        except TimeoutError:
            continue
        except OSError as error:
            logger.info("gateway %s:%d cannot be reached: %s", *address, error)
            return False
        writer.close()
        return True
    logger.info("gateway %s:%d cannot be reached: no answer", *address)
    return False
