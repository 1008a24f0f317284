"""What clients of the simulated Kafka see: answers that take a while, come twice, or never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS, ResponsePartitions
from tests.simulation.brokers.kafka_log import LogBatch, LogRecord, SimulatedKafka
from tests.simulation.job.simulated_responses import SimulatedResponses, choose_partition
from tests.simulation.virtual_clock import Event, Scheduler

#: (append time in ms, offset) of a row that the broker has, or why it is not known to have it.
OnAppended = Callable[[LogBatch | KafkaError], None]


@dataclass
class Weather:
    """How bad the network is: latencies of one way in ms, and chances that a message is lost or sent twice."""

    least_ms: float = 1.0
    mean_ms: float = 4.0
    slow_chance: float = 0.01
    slow_ms: float = 1_500.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    #: That a row whose answer was lost is there twice.
    repeats: float = 0.2

    def latency_ms(self, clock: Scheduler) -> float:
        """Of one message, one way."""
        if self.slow_chance and clock.random.random() < self.slow_chance:
            return clock.random.uniform(self.mean_ms, self.slow_ms)
        return self.least_ms + clock.random.expovariate(1 / self.mean_ms)


class _Read(NamedTuple):
    """What `ResponsePartitions` looks at of a record."""

    offset: int
    timestamp: int


@dataclass
class _Row:
    """A row on its way; `appended` is where it was appended, which only the broker knows."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    may_repeat: bool
    on_appended: OnAppended
    appended: LogBatch | None = None


class RowSender:
    """Produces rows in order, by key, and tries again until a row has its answer, as an idempotent producer: when the
    answer was lost, the next attempt is told of the first append. Seldom a row is appended twice all the same, if it
    `may_repeat`. `retry_ms` is how long it waits for an answer."""

    def __init__(self, clock: Scheduler, kafka: SimulatedKafka, weather: Weather, retry_ms: float = 1_000) -> None:
        self._clock, self._kafka, self._weather, self._retry_ms = clock, kafka, weather, retry_ms
        self._busy: dict[tuple[str, int], float] = {}
        self._partition_of = kafka.partitioner()
        self.closed = False

    def send(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        on_appended: OnAppended | None = None,
        may_repeat: bool = False,
    ) -> None:
        """Produce a row; `on_appended` hears of the first append that was answered."""
        partition = self._partition_of(topic, key)
        self._attempt(_Row(topic, partition, key, value, may_repeat, on_appended or (lambda answer: None)))

    def close(self) -> None:
        """The process is gone: what is on its way arrives, and nobody hears of it."""
        self.closed = True

    def _attempt(self, row: _Row) -> None:
        """One request after the other for a partition, as an idempotent producer keeps their order."""
        now = self._clock.now_us / 1000
        where = row.topic, row.partition
        arrives = max(now + self._weather.latency_ms(self._clock), self._busy.get(where, 0.0))
        self._busy[where] = arrives
        lost = self._clock.random.random() < self._weather.lost_request
        self._clock.at(arrives, lambda: self._arrive(row, lost))

    def _arrive(self, row: _Row, lost: bool) -> None:
        retry = self._clock.after(self._retry_ms, lambda: None if self.closed else self._attempt(row))
        if not lost:
            self._kafka.at_leader(row.topic, row.partition, lambda: self._append(row, retry))

    def _append(self, row: _Row, retry: Event) -> None:
        if row.appended is None or (row.may_repeat and self._clock.random.random() < self._weather.repeats):
            try:
                appended = self._kafka.append(row.topic, row.partition, [(row.key, row.value)])
                row.appended = row.appended or appended
            except KafkaError:
                return
        if self._clock.random.random() < self._weather.lost_answer:
            return
        retry.cancel()
        batch = row.appended
        latency_ms = self._weather.latency_ms(self._clock)
        self._clock.after(latency_ms, lambda: None if self.closed else row.on_appended(batch))


class RowTail:
    """Reads the responses to a key from the topic's end on, and all others, and hands each row to `on_row`, in the
    order of each partition. In runs where the topic may grow it reads the partitions of the key alone."""

    def __init__(
        self,
        clock: Scheduler,
        kafka: SimulatedKafka,
        weather: Weather,
        topic: str,
        key: bytes,
        on_row: Callable[[int, LogRecord], None],
    ) -> None:
        self._clock, self._kafka, self._weather, self._topic, self._on_row = clock, kafka, weather, topic, on_row
        self._positions = {p: log.log_end_offset for p, log in enumerate(kafka.topic(topic).partitions)}
        self._due: set[int] = set()
        self.closed = False
        self._consumer = SimulatedResponses(kafka)
        self._responses = ResponsePartitions(topic, key, choose_partition)
        if kafka.may_grow:
            self._responses.open(self._consumer)  # type: ignore[arg-type]  # of kafka-python's, what is used
            self._positions = self._consumer.assigned
        kafka.listeners.append(self._appended)

    def close(self) -> None:
        """Read no more."""
        self.closed = True
        self._kafka.listeners.remove(self._appended)

    def _appended(self, topic: str, partition: int) -> None:
        if topic == self._topic and self._kafka.may_grow and partition not in self._positions:
            self._clock.after(METADATA_AGE_MS, self._follow)
        elif topic == self._topic and partition not in self._due:
            self._due.add(partition)
            self._clock.after(self._weather.latency_ms(self._clock), lambda: self._read(partition))

    def _follow(self) -> None:
        """Poll when what the consumer knows is as old as now."""
        if self.closed:
            return
        known = set(self._positions)
        self._responses.follow(self._consumer)  # type: ignore[arg-type]
        self._positions = self._consumer.assigned
        for partition in sorted(set(self._positions) - known):
            self._read(partition)

    def _read(self, partition: int) -> None:
        self._due.discard(partition)
        if self.closed:
            return
        try:
            found = list(self._kafka.log(self._topic, partition).records(self._positions.get(partition, 0)))
        except KafkaError:  # a reader asks again and again
            self._due.add(partition)
            self._clock.after(200, lambda: self._read(partition))
            return
        for append_ms, record in found:
            self._positions[partition] = record.offset + 1
            if self._kafka.may_grow:
                self._responses.took(TopicPartition(self._topic, partition), [_Read(record.offset, append_ms)])
            if not self.closed:
                self._on_row(append_ms, record)
