"""Metrics and health checks of the gateway, served over HTTP if `gateway.metrics.port` is set.

Each scrape runs on its own thread. It reads counters that the event loop updates, and the sizes of caches and maps.
"""

from collections.abc import Callable, Iterator

from sharegroup.gateway.composition import GatewayParts
from sharegroup.monitoring.exporter.metrics_server import MetricsServer
from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Labels, Metric, MetricFamily, gauge

#: The event loop records a tick every `TICK_S` seconds. It counts as blocked after `_BLOCKED_S` seconds without a tick.
TICK_S, _BLOCKED_S = 1.0, 30.0


class GatewayMetrics:
    """The metrics and health checks of a gateway, and their HTTP server.

    `clock` returns the event loop's time in seconds.
    """

    def __init__(self, parts: GatewayParts, clock: Callable[[], float]) -> None:
        self._parts, self._clock = parts, clock
        self._server = MetricsServer(self.families, self.health_problems, self.readiness_problems)
        self._is_listening = self._is_draining = False
        self._ticked_s = clock()

    def start(self, host: str, port: int) -> None:
        """Start the server if a port is configured. Raises MetricsUnavailableError if the port cannot be opened."""
        if port:
            self._server.start(host, port)

    def set_listening(self) -> None:
        """Record that the gateway's ports are open."""
        self._is_listening = True
        self.record_tick()

    def record_tick(self) -> None:
        """Record that the event loop is running. Must be called every `TICK_S` seconds."""
        self._ticked_s = self._clock()

    def set_draining(self) -> None:
        """Record that the gateway is being drained: it accepts no new clients, so it is no longer ready."""
        self._is_draining = True

    def close(self) -> None:
        self._is_listening = False
        self._server.close()

    def health_problems(self) -> Iterator[str]:
        """Yield the reasons why the gateway should be restarted. Yield nothing if it is healthy."""
        silent_s = self._clock() - self._ticked_s
        if self._is_listening and silent_s > _BLOCKED_S:
            yield f"the event loop has been blocked for {silent_s:.0f} s"

    def readiness_problems(self) -> Iterator[str]:
        """Yield the reasons why no clients should be sent to this gateway. Yield nothing if it is ready."""
        yield from self.health_problems()
        if not self._is_listening:
            yield "the gateway's ports are not open"
        if self._is_draining:
            yield "the gateway is stopping and accepts no clients"
        if not self._parts.cluster.is_reachable:
            yield "the upstream brokers do not respond"
        for cell, channel in self._parts.channels.items():
            if problem := channel.unavailable_reason():
                yield f"cell {cell}: {problem}" if cell else problem

    def families(self) -> Iterator[MetricFamily]:
        parts, sessions = self._parts, self._parts.share.sessions
        yield from parts.counts.families()
        yield from sessions.delivery_counts.families()
        nodes = {(str(node_id),): cache for node_id, cache in sessions.sessions_by_node.items()}
        yield gauge(catalogue.SESSIONS, [(node, len(cache)) for node, cache in nodes.items()])
        yield gauge(catalogue.SESSION_PARTITIONS, [(node, cache.partition_count) for node, cache in nodes.items()])
        yield gauge(catalogue.EVICTIONS, [(node, cache.evictions) for node, cache in nodes.items()])
        cells = {(cell,): channel for cell, channel in parts.channels.items()}
        yield gauge(catalogue.WAITING, [(cell, channel.pending_count) for cell, channel in cells.items()])
        yield gauge(catalogue.TIMEOUTS, [(cell, channel.timeouts) for cell, channel in cells.items()])
        single: dict[Metric, float] = {
            catalogue.CONNECTIONS: len(parts.connections),
            catalogue.RECORDS_AHEAD: sessions.records_ahead,
            catalogue.RECORDS_RESERVED: parts.share.reserved_records,
            catalogue.BATCH_CACHE_BYTES: sessions.cached_bytes,
            catalogue.READY: int(not list(self.readiness_problems())),
        }
        nothing: Labels = ()
        for metric, value in single.items():
            yield gauge(metric, [(nothing, value)])
