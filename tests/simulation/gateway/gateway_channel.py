"""A simulated gateway's channel to the job: the real `CellChannel` between simulated topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from sharegroup.gateway.job_client.cell_channel import CellChannel
from sharegroup.gateway.job_client.response_reader import Row
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.protocol.response_records import LIST_SUFFIX
from tests.simulation.brokers.kafka_log import LogRecord, SimulatedKafka
from tests.simulation.brokers.log_clients import RowTail, Weather
from tests.simulation.gateway.gateway_appender import SimulatedAppender
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class SimulatedJobChannel(CellChannel):
    """The real channel without its Kafka clients. Create it on the process's loop. `delivered` is called after
    responses."""

    def __init__(
        self,
        name: str,
        clock: Scheduler,
        kafka: SimulatedKafka,
        weather: Weather,
        loop: VirtualLoop,
        cluster: UpstreamCluster,
        topics: RowTopics,
        local_ms: Callable[[], int],
        timeout_s: float,
        delivered: Callable[[], None],
    ) -> None:
        super().__init__({}, topics, timeout_s, cluster)
        self._delivered = delivered
        self.reply_to = name + LIST_SUFFIX
        self._clock, self._kafka, self._weather = clock, kafka, weather
        self.simulated_appender = SimulatedAppender(clock, kafka, weather, loop, cluster, local_ms, timeout_s)
        self._appender = self.simulated_appender  # type: ignore[assignment]
        self._tail: RowTail | None = None

    def start(self) -> None:
        """Begin to read responses; requests wait for their topics."""
        self._tail = RowTail(
            self._clock, self._kafka, self._weather, self._topics.responses, self.reply_to.encode(), self._read_row
        )
        self._listening.set()
        self._opening = asyncio.ensure_future(self._open_requests())

    async def close(self) -> None:
        """Send the rows on their way, and stop reading."""
        if self._opening is not None:
            self._opening.cancel()
        await self.simulated_appender.close()
        self._stop_reading()

    def kill(self) -> None:
        """Stop sending and reading immediately."""
        self.simulated_appender.kill()
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _deliver(self, rows: list[Row]) -> None:
        super()._deliver(rows)
        self._delivered()

    def _read_row(self, append_ms: int, record: LogRecord) -> None:
        self._receive([_ReadRecord(*record, append_ms)])


class _ReadRecord(NamedTuple):
    """A record of the response topic in a consumer's form."""

    offset: int
    key: bytes | None
    value: bytes
    timestamp: int
