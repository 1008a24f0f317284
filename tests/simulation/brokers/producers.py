"""The producers of records, and the faults of their topics: growth, retention, missing leaders, deletion."""

from __future__ import annotations

import functools

from kafka.errors import KafkaError

from tests.simulation.world import World

TOPICS = ("orders", "events")
#: The last records are appended this long after the last fault; all must be delivered when the run ends.
_LAST_MS = 300_000
#: Until this long before the last fault, a topic without an id may be missing for a long time.
_FORGOTTEN_MS = 300_000


class Producers:
    """The producers, which create the topics and append records until `World.calm_ms`, and a little beyond."""

    def __init__(self, world: World) -> None:
        self._world, self._clock, self._kafka = world, world.clock, world.kafka
        self._random = world.random("producers")
        self._every_ms = self._random.choice((120_000, 240_000, 480_000))
        self.topics = TOPICS[: self._random.choice((1, 1, 2))]

    def start(self) -> None:
        """Begin; some topics have records before any member joins."""
        for topic in self.topics:
            self._kafka.create_topic(topic, self._random.choice((1, 1, 2, 3)))
            for _ in range(self._random.choice((0, 1, 3))):
                self._append(topic)
            self._clock.after(self._random.uniform(0, self._every_ms), functools.partial(self._burst, topic))
        for fault, every_ms, action in (
            ("leader_away", 600_000, self._leader_away),
            ("retention", 500_000, self._retention),
            ("topic_grows", 1_500_000, self._grow),
            ("topic_again", 900_000, self._topic_again),
            ("unclean_election", 400_000, self._elect_uncleanly),
        ):
            if fault in self._world.faults:
                self._repeat(fault, every_ms, action)

    def _repeat(self, fault: str, every_ms: int, action: object) -> None:
        def again() -> None:
            if self._world.has(fault):
                action(self._random.choice(self.topics))  # type: ignore[operator]
                self._clock.after(self._random.expovariate(1 / every_ms), again)

        self._clock.after(self._random.expovariate(1 / every_ms), again)

    def _burst(self, topic: str) -> None:
        if self._clock.now_ms > self._world.calm_ms + _LAST_MS:
            return
        for _ in range(self._random.choice((1, 1, 2))):
            self._append(topic)
        self._clock.after(self._random.expovariate(1 / self._every_ms), lambda: self._burst(topic))

    def _append(self, topic: str) -> None:
        if topic not in self._kafka.topics:
            return
        partition = self._random.randrange(len(self._kafka.topics[topic].partitions))
        rows = [(None, b"record")] * self._random.choice((1, 3, 10, 20))
        holes = self._random.choice((0, 0, 0, 1, 5))
        producer = ""
        if self._world.has("transactions") and self._random.random() < 0.4:
            producer = f"producer-{self._random.randrange(2)}"
        try:
            batch = self._kafka.append(topic, partition, rows, producer=producer, holes=holes)
        except KafkaError:
            return
        self._world.trace.add(
            "producer", f"{topic}-{partition} has {batch.base_offset}..{batch.last_offset}", f"{topic}-{partition}"
        )
        if producer:
            self._clock.after(self._random.choice((100, 2_000, 60_000)), lambda: self._end(topic, partition, producer))

    def _end(self, topic: str, partition: int, producer: str) -> None:
        try:
            self._kafka.end_transaction(topic, partition, producer, self._random.random() < 0.7)
        except KafkaError:
            self._clock.after(1_000, lambda: self._end(topic, partition, producer))

    # -- faults of topics ------------------------------------------------------------------------------------------

    def _leader_away(self, topic: str) -> None:
        if topic not in self._kafka.topics:
            return
        partition = self._random.randrange(len(self._kafka.topics[topic].partitions))
        self._kafka.move_leader(topic, partition, -1)
        topic_id = self._kafka.topics[topic].topic_id

        def back() -> None:
            if self._kafka.topic_by_id(topic_id) is not None:
                self._kafka.move_leader(topic, partition, self._random.choice(self._kafka.brokers))

        self._clock.after(self._random.choice((500, 5_000, 40_000, 120_000)), back)

    def _elect_uncleanly(self, topic: str) -> None:
        """Lose the last one, two or three batches. A topic without an id would be mistaken for a new one."""
        if topic not in self._kafka.topics or not self._kafka.has_topic_ids:
            return
        partition = self._random.randrange(len(self._kafka.topics[topic].partitions))
        log = self._kafka.topics[topic].partitions[partition]
        lost = log.batches[-self._random.choice((1, 2, 3)) :]
        if log.leader >= 0 and lost and lost[0].base_offset >= log.log_start_offset:
            leader = self._random.choice([other for other in self._kafka.brokers if other != log.leader])
            self._kafka.elect_uncleanly(topic, partition, leader, lost[0].base_offset)
            if self._random.random() < 0.5:
                self._append(topic)  # the log may have grown beyond its old end before it is read

    def _retention(self, topic: str) -> None:
        if topic in self._kafka.topics:
            partition = self._random.randrange(len(self._kafka.topics[topic].partitions))
            log = self._kafka.topics[topic].partitions[partition]
            if log.leader >= 0 and log.leader not in self._kafka.silence:
                before = self._random.randint(log.log_start_offset, log.log_end_offset)
                self._kafka.delete_records(topic, partition, before)
                self._world.trace.add("retention", f"{topic}-{partition} starts at {before}")

    def _grow(self, topic: str) -> None:
        if topic in self._kafka.topics and len(self._kafka.topics[topic].partitions) < 4:
            self._kafka.create_partitions(topic, len(self._kafka.topics[topic].partitions) + 1)

    def _topic_again(self, topic: str) -> None:
        if topic not in self._kafka.topics:
            return
        partitions = len(self._kafka.topics[topic].partitions)
        self._kafka.delete_topic(topic)

        def again() -> None:
            if topic not in self._kafka.topics:
                self._kafka.create_topic(topic, max(1, partitions + self._random.choice((-1, 0, 0, 1))))
                for _ in range(self._random.choice((0, 1, 3))):
                    self._append(topic)

        self._clock.after(self._random.choice(self._absences_ms()), again)

    def _absences_ms(self) -> tuple[int, ...]:
        """Return how long a topic may be missing. After the longest time the job considers it deleted, and its id for
        ten minutes; if the next one has the same id, there must be time for that."""
        short = 0, 100, 3_000, 20_000
        is_time_left = self._clock.now_ms < self._world.calm_ms - _FORGOTTEN_MS
        return (*short, 90_000) if self._kafka.has_topic_ids or is_time_left else short
