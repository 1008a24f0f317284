"""Faults of the job's own topics: more partitions, transactions of other producers, and early retention."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kafka.errors import KafkaError

from sharegroup.protocol.rows.probe import PROBE
from tests.simulation.world import GROUP_REQUESTS, JOB_TOPICS, PARTITION_REQUESTS, RESPONSES, World

#: The mean time between two faults of a kind.
_GROW_EVERY_MS, _TRANSACTION_EVERY_MS, _TRIM_EVERY_MS = 600_000, 120_000, 400_000
#: The duration of a transaction.
_OPEN_MS = (100, 5_000, 40_000)
_MOST_PARTITIONS = 5


class JobTopicFaults:
    """The faults, in the runs that have them."""

    def __init__(self, world: World) -> None:
        self._world, self._clock, self._kafka = world, world.clock, world.kafka
        self._random = world.random("job topics")
        self._transactions = 0

    def start(self) -> None:
        """Begin."""
        self._repeat("job_topics_grow", _GROW_EVERY_MS, self._grow)
        self._repeat("job_transactions", _TRANSACTION_EVERY_MS, self._transaction)
        self._repeat("responses_trimmed", _TRIM_EVERY_MS, self._trim_at_next_response)

    def _repeat(self, fault: str, every_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            if self._world.has(fault):
                action()
                self._clock.after(self._random.expovariate(1 / every_ms), again)

        if fault in self._world.faults:
            self._clock.after(self._random.expovariate(1 / every_ms), again)

    def _grow(self) -> None:
        topic = self._random.choice(JOB_TOPICS)
        partitions = len(self._kafka.topic(topic).partitions)
        if partitions < _MOST_PARTITIONS:
            self._kafka.create_partitions(topic, partitions + self._random.choice((1, 2)))

    def _transaction(self) -> None:
        """Write a row without content in a transaction, which ends some time later."""
        topic = self._random.choice((GROUP_REQUESTS, PARTITION_REQUESTS))
        partition = self._random.randrange(len(self._kafka.topic(topic).partitions))
        self._transactions += 1
        producer = f"outside-{self._transactions}"
        try:
            self._kafka.append(topic, partition, [(b"", PROBE.encode())], producer=producer)
        except KafkaError:
            return
        end = functools.partial(self._end, topic, partition, producer, self._random.random() < 0.5)
        self._clock.after(self._random.choice(_OPEN_MS), end)

    def _trim_at_next_response(self) -> None:
        """Delete all responses of a partition as soon as the next one is appended, before anybody has read it."""
        if self._appended not in self._kafka.listeners:
            self._kafka.listeners.append(self._appended)

    def _appended(self, topic: str, partition: int) -> None:
        if topic != RESPONSES:
            return
        self._kafka.listeners.remove(self._appended)
        end = self._kafka.topic(topic).partitions[partition].log_end_offset
        self._kafka.delete_records(topic, partition, end)
        self._world.trace.add("retention", f"{topic}-{partition} starts at {end}")

    def _end(self, topic: str, partition: int, producer: str, commit: bool) -> None:
        try:
            self._kafka.end_transaction(topic, partition, producer, commit)
        except KafkaError:
            self._clock.after(1_000, lambda: self._end(topic, partition, producer, commit))
