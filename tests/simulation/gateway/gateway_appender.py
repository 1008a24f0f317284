"""A replacement of `RowAppender`: it appends rows to the simulated Kafka like an idempotent producer.

One request for a topic partition is on its way at a time, and is repeated unchanged until it has a response or its time
is over. The broker appends it once. Rows that are given up may still be appended, but not after the next ones are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from kafka.errors import KafkaError

from sharegroup.gateway.job_client.row_appender import ATTEMPT_SHARE, JobUnavailableError, PartitionCounts
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.broker_clock import BrokerClock
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop

#: The delay before a rejected request is retried.
RETRY_S = 0.2
MAX_BATCH_ROWS = 1_000


class SimulatedAppender:
    """The appender of a gateway's rows. `local_ms` is the process's `row_appender.local_ms`; a row has `timeout_s`
    seconds to become durable."""

    def __init__(
        self,
        clock: Scheduler,
        kafka: SimulatedKafka,
        weather: Weather,
        loop: VirtualLoop,
        cluster: UpstreamCluster,
        local_ms: Callable[[], int],
        timeout_s: float,
    ) -> None:
        self.clock, self.kafka, self.weather, self.loop, self.local_ms = clock, kafka, weather, loop, local_ms
        self.timeout_s = timeout_s
        self.broker_clock = BrokerClock()
        self._cluster = cluster
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._partition_of = kafka.partitioner(PartitionCounts().get)
        self._is_closed = False

    def now_ms(self) -> int:
        """Return the brokers' time, as far as it is known here."""
        return self.broker_clock.now_ms(self.local_ms())

    async def has_topics(self, topics: Iterable[str]) -> bool:
        """Return whether rows can be appended to all of these topics. Raises UpstreamUnavailableError."""
        wanted = set(topics)
        return (await self._cluster.topics(wanted)).keys() == wanted

    def append(self, topic: str, key: bytes, value: bytes) -> asyncio.Future[int]:
        """Append a row, as `RowAppender.append` does."""
        if self._is_closed:
            raise JobUnavailableError("the gateway is shutting down")
        place = topic, self._partition_of(topic, key)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = _Queue(self, *place)
        return queue.append(key, value)

    async def close(self) -> None:
        """Accept no more rows, and send those that wait."""
        self._is_closed = True
        rows = [row.durable for queue in self._queues.values() for row in queue.rows]
        if rows:
            await asyncio.wait(rows, timeout=5)

    def kill(self) -> None:
        """End the process; rows on their way arrive."""
        self._is_closed = True


class _Row:
    """A row, which is sent even if nothing waits for it any longer, unless its time is over."""

    __slots__ = ("durable", "is_late", "key", "value")

    def __init__(self, key: bytes, value: bytes, durable: asyncio.Future[int]) -> None:
        self.key, self.value, self.durable = key, value, durable
        self.is_late = False


class _Batch:
    """A batch. `number` is its place in the queue, `sent_ms` the local time of its first attempt; `append_ms` is set
    once it is in the log."""

    __slots__ = ("append_ms", "deadline", "is_settled", "number", "rows", "sent_ms")

    def __init__(self, number: int, rows: list[_Row], deadline: float, sent_ms: int) -> None:
        self.number, self.rows, self.deadline, self.sent_ms = number, rows, deadline, sent_ms
        self.append_ms: int | None = None
        self.is_settled = False


class _Queue:
    """The rows of one topic partition; `appended` is the number of the newest batch in the log."""

    def __init__(self, appender: SimulatedAppender, topic: str, partition: int) -> None:
        self._appender, self._topic, self._partition = appender, topic, partition
        self._clock, self._loop = appender.clock, appender.loop
        self.rows: deque[_Row] = deque()
        self._on_its_way: _Batch | None = None
        self._numbers = self._appended = 0

    def append(self, key: bytes, value: bytes) -> asyncio.Future[int]:
        row = _Row(key, value, self._loop.create_future())
        self._loop.call_later(self._appender.timeout_s, _give_up, row)
        self.rows.append(row)
        self._send()
        return row.durable

    def _send(self) -> None:
        """Send the next batch, unless one is on its way."""
        rows: list[_Row] = []
        while self._on_its_way is None and self.rows and len(rows) < MAX_BATCH_ROWS:
            row = self.rows.popleft()
            if not row.is_late:
                rows.append(row)
        if rows:
            self._numbers += 1
            deadline = self._loop.time() + self._appender.timeout_s
            self._on_its_way = _Batch(self._numbers, rows, deadline, self._appender.local_ms())
            self._attempt(self._on_its_way)

    def _attempt(self, batch: _Batch) -> None:
        if batch.is_settled:
            return
        if self._loop.time() >= batch.deadline:
            self._settle(batch, None)
            return
        weather, chance = self._appender.weather, self._clock.random.random()
        timer = self._loop.call_later(ATTEMPT_SHARE * self._appender.timeout_s, self._attempt, batch)
        if chance >= weather.lost_request:
            self._clock.after(weather.latency_ms(self._clock), lambda: self._arrive(batch, timer))

    def _arrive(self, batch: _Batch, timer: asyncio.TimerHandle) -> None:
        """Append a batch at the broker, whatever has become of the process."""
        kafka = self._appender.kafka
        kafka.at_leader(self._topic, self._partition, lambda: self._append(batch, timer))

    def _append(self, batch: _Batch, timer: asyncio.TimerHandle) -> None:
        weather = self._appender.weather
        append_ms = batch.append_ms
        if append_ms is None and batch.number > self._appended:
            try:
                rows = [(row.key, row.value) for row in batch.rows]
                append_ms = self._appender.kafka.append(self._topic, self._partition, rows).append_ms
            except KafkaError:
                append_ms = None
            else:
                batch.append_ms, self._appended = append_ms, batch.number
        if self._clock.random.random() >= weather.lost_answer:
            self._clock.after(
                weather.latency_ms(self._clock),
                lambda: self._loop.call_soon(self._answered, batch, append_ms, timer),
            )

    def _answered(self, batch: _Batch, append_ms: int | None, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        if append_ms is None:
            self._loop.call_later(RETRY_S, self._attempt, batch)
            return
        self._appender.broker_clock.record_append(batch.sent_ms, append_ms, self._appender.local_ms())
        self._settle(batch, append_ms)

    def _settle(self, batch: _Batch, append_ms: int | None) -> None:
        if batch.is_settled:
            return
        batch.is_settled = True
        for row in batch.rows:
            if append_ms is None:
                _give_up(row)
            elif not row.durable.done():
                row.durable.set_result(append_ms)
        self._on_its_way = None
        self._send()


def _give_up(row: _Row) -> None:
    row.is_late = True
    if not row.durable.done():
        row.durable.set_exception(JobUnavailableError("the request was not durable in time"))
        row.durable.exception()  # the waiting task may have ended
