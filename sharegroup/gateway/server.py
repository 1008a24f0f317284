"""The gateway: startup, periodic work, drain (moving clients to other gateways) and shutdown."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from sharegroup.config import Config
from sharegroup.gateway.composition import GatewayParts
from sharegroup.gateway.gateway_metrics import TICK_S, GatewayMetrics
from sharegroup.gateway.groups.group_configs import REFRESH_INTERVAL_S as CONFIGS_INTERVAL_S
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

UPKEEP_INTERVAL_S, FLEET_INTERVAL_S, IDLE_CHECK_INTERVAL_S, REFRESH_INTERVAL_S = 0.1, 0.5, 1.0, 30.0
#: How often the files of users, ACLs and certificates are checked for changes.
SECURITY_INTERVAL_S = 1.0


class Gateway:
    """A gateway that serves clients between `start` and `stop`. Must be created on the event loop that runs it."""

    def __init__(self, config: Config) -> None:
        self.parts = GatewayParts(config)
        self._config = config.gateway
        self._metrics = GatewayMetrics(self.parts, asyncio.get_running_loop().time)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect to the upstream cluster, open the ports and start the periodic work.

        Raises:
            UpstreamUnavailableError: no broker responds.
            RequestError: the tables cannot be read (COORDINATOR_NOT_AVAILABLE).
            OSError: a port cannot be opened.
            MetricsUnavailableError: the port for metrics cannot be opened.
        """
        parts = self.parts
        self._metrics.start(self._config.metrics_host, self._config.metrics_port)
        parts.job.start()
        await parts.cluster.refresh()
        await parts.group_configs.refresh()  # before the first fetch, because a group may be read_committed
        await parts.ports.open()
        self._metrics.set_listening()
        upkeep: list[tuple[float, Callable[[], Awaitable[None] | None]]] = [
            (UPKEEP_INTERVAL_S, parts.share.upkeep),
            (IDLE_CHECK_INTERVAL_S, parts.connections.close_idle),
            (CONFIGS_INTERVAL_S, parts.group_configs.upkeep),
            (SECURITY_INTERVAL_S, partial(asyncio.to_thread, parts.reload_security)),
            (REFRESH_INTERVAL_S, self._refresh),
            (FLEET_INTERVAL_S, parts.fleet.upkeep),
            (TICK_S, self._metrics.record_tick),
        ]
        self._tasks = [asyncio.ensure_future(_run_periodically(interval_s, work)) for interval_s, work in upkeep]

    async def drain(self) -> None:
        """Move the clients to other gateways. Call `stop` afterwards.

        The gateway accepts no new clients. It disconnects each client that holds no records and has all its responses.
        It waits for the other clients for up to `gateway.drain.timeout.ms`. `stop` disconnects those that remain.
        """
        parts = self.parts
        self._metrics.set_draining()
        parts.ports.close()
        parts.share.drain()
        await parts.fleet.leave(parts.share.sessions.connection_holds_records)
        if not await parts.connections.drain(self._may_go, self._config.drain_timeout_ms / 1000):
            logger.warning(
                "drain timeout expired: %(count)d clients are still connected; the gateway releases their records when"
                " it stops",
                LogFields(count=len(parts.connections)),
            )

    def _may_go(self, connection_id: int) -> bool:
        return not self.parts.share.sessions.connection_holds_records(connection_id)

    async def stop(self) -> None:
        """Close the ports and connections, and release the records that members hold."""
        parts = self.parts
        self._metrics.close()
        for task in self._tasks:
            task.cancel()
        parts.pass_through.close()
        parts.ports.close()
        parts.share.close()  # releases what members hold, before their connections close
        parts.connections.close()
        parts.reachability.close()
        await parts.job.close()
        parts.cluster.close()
        parts.logins.close()

    @property
    def addresses(self) -> Mapping[int, tuple[str, int]]:
        """The addresses that clients receive from this gateway, as {id of the upstream broker: (host, port)}."""
        return self.parts.listeners.addresses

    async def _refresh(self) -> None:
        """Refresh the metadata (topics, partitions, leaders and brokers), and open ports for new brokers."""
        if await self.parts.cluster.try_refresh():
            await self.parts.ports.open_new()


async def _run_periodically(interval_s: float, work: Callable[[], Awaitable[None] | None]) -> None:
    """Run `work` every `interval_s` seconds. Errors are logged and do not end the loop."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            done = work()
            if done is not None:
                await done
        except Exception:
            logger.exception("a periodic task of the gateway failed; it will be retried")


@contextlib.asynccontextmanager
async def running_gateway(config: Config) -> AsyncIterator[Gateway]:
    """Start a gateway on entry and stop it on exit. Raises the errors of `GatewayParts` and of `Gateway.start`."""
    gateway = Gateway(config)
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.stop()
