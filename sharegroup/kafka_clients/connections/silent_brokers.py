"""Brokers that do not respond: requests to them fail immediately until they respond again.

The first request to a broker that is paused or cut off waits until its timeout. From then on the broker is *silent*:
requests to it fail immediately, and a task requests its ApiVersions until it responds. One line is logged when an
outage starts, and one when it ends.
"""

import asyncio
import logging
from collections.abc import Callable

from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Pause between two attempts to reach a silent broker, and timeout of an attempt, in seconds.
_RETRY_S, _ATTEMPT_S = 0.5, 2.0


class SilentBrokers:
    """The brokers of one cluster that do not respond. Each is queried until it responds, and is then removed.

    `connection_to` returns the connection to the broker with an id. It raises UpstreamUnavailableError for an unknown
    id.
    """

    def __init__(self, connection_to: Callable[[int], ReconnectingConnection]) -> None:
        self._connection_to = connection_to
        self._attempts: dict[int, asyncio.Task[None]] = {}

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._attempts

    def add(self, node_id: int, problem: str) -> None:
        """Add a broker that does not respond, and start to query it. `problem` is the reason to log."""
        if node_id not in self._attempts:
            logger.warning("broker %(broker)d does not respond: %(error)s", LogFields(broker=node_id, error=problem))
            self._attempts[node_id] = asyncio.get_running_loop().create_task(self._try_until_it_answers(node_id))

    def close(self) -> None:
        for task in self._attempts.values():
            task.cancel()

    async def _try_until_it_answers(self, node_id: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not await self._answers(node_id):
            await asyncio.sleep(_RETRY_S)
        del self._attempts[node_id]
        duration_s = loop.time() - began
        logger.warning(
            "broker %(broker)d responds again after %(duration_s).1f s",
            LogFields(broker=node_id, duration_s=duration_s),
        )

    async def _answers(self, node_id: int) -> bool:
        try:
            connection = self._connection_to(node_id)
        except UpstreamUnavailableError:
            return False
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                await connection.features()
        except TimeoutError:
            connection.close()  # also ends the attempt to connect
            return False
        except UpstreamUnavailableError:
            return False
        return True
