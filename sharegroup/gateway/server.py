"""The gateway as a whole: its start, its upkeep and its end. What it is made of is in `composition`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from sharegroup.config import Config
from sharegroup.gateway.composition import Parts
from sharegroup.gateway.groups.group_configs import REFRESH_INTERVAL_S as CONFIGS_INTERVAL_S
from sharegroup.gateway.shown_metrics import TICK_S, ShownMetrics

logger = logging.getLogger(__name__)

UPKEEP_INTERVAL_S, FLEET_INTERVAL_S, IDLE_CHECK_INTERVAL_S, REFRESH_INTERVAL_S = 0.1, 0.5, 1.0, 30.0
#: How often files of users, rights and certificates are looked at.
SECURITY_INTERVAL_S = 1.0


class Gateway:
    """`start` opens the ports, `stop` closes them; between the two it serves. One event loop; made on it."""

    def __init__(self, config: Config) -> None:
        self.parts = Parts(config)
        self._config = config.gateway
        self._metrics = ShownMetrics(self.parts, asyncio.get_running_loop().time)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect to the upstream cluster and open the ports.

        Raises UpstreamUnavailableError, OSError, or MetricsUnavailableError.
        """
        parts = self.parts
        self._metrics.start(self._config.metrics_host, self._config.metrics_port)
        parts.job.start()
        await parts.cluster.refresh()
        await parts.group_configs.refresh()  # before the first fetch: a group may be a read_committed one
        await parts.ports.open()
        self._metrics.listening()
        upkeep: list[tuple[float, Callable[[], Awaitable[None] | None]]] = [
            (UPKEEP_INTERVAL_S, parts.share.sessions.upkeep),
            (IDLE_CHECK_INTERVAL_S, parts.connections.close_idle),
            (CONFIGS_INTERVAL_S, parts.group_configs.upkeep),
            (SECURITY_INTERVAL_S, partial(asyncio.to_thread, parts.look_at_security)),
            (REFRESH_INTERVAL_S, self._refresh),
            (FLEET_INTERVAL_S, parts.fleet.upkeep),
            (TICK_S, self._metrics.tick),
        ]
        self._tasks = [asyncio.ensure_future(_each(interval_s, work)) for interval_s, work in upkeep]

    async def drain(self) -> None:
        """Have the clients go to other gateways, each when it has acknowledged what it holds, before `stop`.

        Takes `gateway.drain.timeout.ms` at most, and a moment to tell the other gateways.
        """
        parts = self.parts
        self._metrics.draining()
        parts.ports.close()
        parts.share.sessions.drain()
        await parts.fleet.leave(parts.share.sessions.holds)
        if not await parts.connections.drain(self._may_go, self._config.drain_timeout_ms / 1000):
            logger.warning("%d clients have not finished in time: what they hold goes back", len(parts.connections))

    def _may_go(self, connection_id: int) -> bool:
        return not self.parts.share.sessions.holds(connection_id)

    async def stop(self) -> None:
        """Close the ports, give back what members hold, and end."""
        parts = self.parts
        self._metrics.close()
        for task in self._tasks:
            task.cancel()
        parts.pass_through.close()
        parts.ports.close()
        parts.share.sessions.close()  # gives back what members hold, before their connections end
        parts.connections.close()
        parts.reachability.close()
        await parts.job.close()
        parts.cluster.close()
        parts.logins.close()

    @property
    def addresses(self) -> Mapping[int, tuple[str, int]]:
        """{upstream broker: where clients are told to find it}"""
        return self.parts.listeners.addresses

    async def _refresh(self) -> None:
        """Learn of new topics, partitions, leaders and brokers."""
        if await self.parts.cluster.try_refresh():
            await self.parts.ports.open_new()


async def _each(interval_s: float, work: Callable[[], Awaitable[None] | None]) -> None:
    """Do it for ever, whatever goes wrong."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            done = work()
            if done is not None:
                await done
        except Exception:
            logger.exception("the gateway's upkeep failed, will try again")


@contextlib.asynccontextmanager
async def running_gateway(config: Config) -> AsyncIterator[Gateway]:
    """A started gateway, stopped at the end. Raises what `Gateway.start` raises."""
    gateway = Gateway(config)
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.stop()
