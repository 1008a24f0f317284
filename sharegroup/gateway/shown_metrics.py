"""The gateway's metrics and its health, over HTTP where `gateway.metrics.port` is set.

A scrape is answered on a thread of its own: it reads what the event loop counts, and the sizes of what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sharegroup.gateway.composition import Parts
from sharegroup.monitoring.exporter.metrics_server import MetricsServer
from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Family, Labels, Metric, gauge

#: The event loop says so often that it gets on; one that has not for `_HANGS_S` hangs.
TICK_S, _HANGS_S = 1.0, 30.0


class ShownMetrics:
    """`clock` is the event loop's, in seconds."""

    def __init__(self, parts: Parts, clock: Callable[[], float]) -> None:
        self._parts, self._clock = parts, clock
        self._server = MetricsServer(self.families, self.unhealthy, self.unready)
        self._is_listening = self._is_draining = False
        self._ticked_s = clock()

    def start(self, host: str, port: int) -> None:
        """Show them, if there is a port. Raises MetricsUnavailableError."""
        if port:
            self._server.start(host, port)

    def listening(self) -> None:
        """The gateway's ports are open."""
        self._is_listening = True
        self.tick()

    def tick(self) -> None:
        """The event loop gets on."""
        self._ticked_s = self._clock()

    def draining(self) -> None:
        """The gateway ends as soon as its clients are gone."""
        self._is_draining = True

    def close(self) -> None:
        """The gateway ends."""
        self._is_listening = False
        self._server.close()

    def unhealthy(self) -> Iterator[str]:
        """Why the process should be started again."""
        silent_s = self._clock() - self._ticked_s
        if self._is_listening and silent_s > _HANGS_S:
            yield f"the event loop hangs, for {silent_s:.0f} s by now"

    def unready(self) -> Iterator[str]:
        """Why clients should not be sent here."""
        yield from self.unhealthy()
        if not self._is_listening:
            yield "the gateway's ports are not open"
        if self._is_draining:
            yield "the gateway ends: it takes no more clients"
        if not self._parts.cluster.is_reachable:
            yield "the upstream brokers do not answer"
        for cell, channel in self._parts.channels.items():
            if problem := channel.problem():
                yield f"cell {cell}: {problem}" if cell else problem

    def families(self) -> Iterator[Family]:
        """All metrics as they are now."""
        parts, sessions = self._parts, self._parts.share.sessions
        yield from parts.counts.families()
        nodes = {(str(node_id),): cache for node_id, cache in sessions.nodes.items()}
        yield gauge(catalogue.SESSIONS, [(node, len(cache)) for node, cache in nodes.items()])
        yield gauge(catalogue.SESSION_PARTITIONS, [(node, cache.partition_count) for node, cache in nodes.items()])
        yield gauge(catalogue.EVICTIONS, [(node, cache.evictions) for node, cache in nodes.items()])
        cells = {(cell,): channel for cell, channel in parts.channels.items()}
        yield gauge(catalogue.WAITING, [(cell, channel.waiting) for cell, channel in cells.items()])
        yield gauge(catalogue.TIMEOUTS, [(cell, channel.timeouts) for cell, channel in cells.items()])
        single: dict[Metric, float] = {
            catalogue.CONNECTIONS: len(parts.connections),
            catalogue.RECORDS_AHEAD: sessions.records_ahead,
            catalogue.BATCH_CACHE_BYTES: sessions.cached_bytes,
            catalogue.READY: int(not list(self.unready())),
        }
        nothing: Labels = ()
        for metric, value in single.items():
            yield gauge(metric, [(nothing, value)])
