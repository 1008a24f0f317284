"""The view of the simulated Kafka's clients: responses that are late, duplicated or lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from sharegroup.kafka_clients import response_partitions
from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS, ResponsePartitions
from tests.simulation.brokers.kafka_log import LogBatch, LogRecord, PartitionLog, SimulatedKafka
from tests.simulation.job.simulated_responses import SimulatedResponses, choose_partition
from tests.simulation.virtual_clock import Event, Scheduler

#: (append time in ms, offset) of a row that the broker has, or the reason why this is unknown.
OnAppended = Callable[[LogBatch | KafkaError], None]


@dataclass
class Weather:
    """The quality of the network: latencies of one way in ms, and chances that a message is lost or duplicated."""

    least_ms: float = 1.0
    mean_ms: float = 4.0
    slow_chance: float = 0.01
    slow_ms: float = 1_500.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    #: The chance that a row whose response was lost is appended twice.
    repeats: float = 0.2

    def latency_ms(self, clock: Scheduler) -> float:
        """Return the latency of one message, one way."""
        if self.slow_chance and clock.random.random() < self.slow_chance:
            return clock.random.uniform(self.mean_ms, self.slow_ms)
        return self.least_ms + clock.random.expovariate(1 / self.mean_ms)


class _Read(NamedTuple):
    """The fields of a record that `ResponsePartitions` uses."""

    offset: int
    timestamp: int


@dataclass
class _Row:
    """A row on its way; `appended` is the place of its append, which only the broker knows."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    may_repeat: bool
    on_appended: OnAppended
    appended: LogBatch | None = None


class RowSender:
    """A sender that produces rows in order, by key, and retries each until its response, as an idempotent producer.

    If a response was lost, the next attempt receives that of the first append. Rarely a row is appended twice
    nevertheless, if it `may_repeat`. `retry_ms` is the time that it waits for a response."""

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
        """Produce a row; `on_appended` is called with the first append that has a response."""
        partition = self._partition_of(topic, key)
        self._attempt(_Row(topic, partition, key, value, may_repeat, on_appended or (lambda answer: None)))

    def close(self) -> None:
        """End the process: rows on their way arrive, but no responses are handled."""
        self.closed = True

    def _attempt(self, row: _Row) -> None:
        """Send one request after the other for a partition, as an idempotent producer keeps their order."""
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
    """A reader of the responses to a key, from the topic's end on, that passes each row to `on_row` in the order of its
    partition. In runs where the topic may grow it reads only the partitions of the key."""

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
            self._responses.start_reading(self._consumer)  # type: ignore[arg-type]  # of kafka-python's, what is used
            self._positions = self._consumer.assigned
        kafka.listeners.append(self._appended)

    def close(self) -> None:
        """Stop reading."""
        self.closed = True
        self._kafka.listeners.remove(self._appended)

    def _appended(self, topic: str, partition: int) -> None:
        if topic == self._topic and self._kafka.may_grow and partition not in self._positions:
            self._clock.after(METADATA_AGE_MS, self._follow)
        elif topic == self._topic and partition not in self._due:
            self._due.add(partition)
            self._clock.after(self._weather.latency_ms(self._clock), lambda: self._read(partition))

    def _follow(self) -> None:
        """Poll with the consumer's metadata of this time."""
        if self.closed:
            return
        known = set(self._positions)
        self._responses.follow_partition_count(self._consumer)  # type: ignore[arg-type]
        self._positions = self._consumer.assigned
        for partition in sorted(set(self._positions) - known):
            self._read(partition)

    def _read(self, partition: int) -> None:
        self._due.discard(partition)
        if self.closed:
            return
        try:
            log = self._kafka.log(self._topic, partition)
            self._reset_position(partition, log)
            found = list(log.records(self._positions.get(partition, 0)))
        except KafkaError:  # a reader retries
            self._due.add(partition)
            self._clock.after(200, lambda: self._read(partition))
            return
        for append_ms, record in found:
            self._positions[partition] = record.offset + 1
            if self._kafka.may_grow:
                self._responses.record_positions(
                    TopicPartition(self._topic, partition), [_Read(record.offset, append_ms)]
                )
            if not self.closed:
                self._on_row(append_ms, record)

    def _reset_position(self, partition: int, log: PartitionLog) -> None:
        """Continue as configured if retention has deleted the position. Raises OffsetOutOfRangeError."""
        if self._positions.get(partition, 0) >= log.log_start_offset:
            return
        if response_partitions.OFFSET_RESET != "latest":
            raise OffsetOutOfRangeError(f"{self._topic}-{partition}")
        self._positions[partition] = log.log_end_offset
