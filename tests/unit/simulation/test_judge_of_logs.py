"""What the judge says of records that no log has."""

from __future__ import annotations

import pytest

from sharegroup.types import AcquiredRange
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.judges.judge import Judge, Key
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler


class Logs:
    """A judge, and the topic `orders` that had three records, was deleted and made again with five."""

    def __init__(self) -> None:
        self.clock = Scheduler(1)
        trace = Trace(self.clock)
        self.kafka = SimulatedKafka(self.clock, trace)
        self.judge = Judge(self.clock, trace, self.kafka)
        self.topic_ids = [self.made(3)]
        self.later(1)
        self.kafka.delete_topic("orders")
        self.later(1)
        self.topic_ids.append(self.made(5))

    def made(self, records: int) -> str:
        topic = self.kafka.create_topic("orders", 1)
        self.kafka.append("orders", 0, [(None, b"v")] * records)
        return topic.topic_id

    def later(self, seconds: int) -> None:
        self.clock.run_until(self.clock.now_ms + 1000 * seconds)

    def said_of(self, topic: int, offset: int, partition: int = 0) -> list[str]:
        """What is said when this record is delivered."""
        key = Key("g", "orders", self.topic_ids[topic], partition)
        self.judge.delivered("m", key, [AcquiredRange(offset, offset, 1)], self.clock.now_ms + 15_000, "r")
        return [violation.rule for violation in self.judge.violations]


@pytest.mark.parametrize(
    ("topic", "offset", "rules"),
    [
        (1, 4, []),
        (1, 5, ["beyond the log"]),
        (0, 4, []),  # asked for by name, the offsets of the next topic are taken for its own
        (0, 5, ["beyond the log"]),
    ],
)
def test_shortly_after_a_deletion_offsets_may_be_those_of_the_next_topic(
    topic: int, offset: int, rules: list[str]
) -> None:
    assert Logs().said_of(topic, offset) == rules


def test_later_a_log_that_is_no_more_ends_where_it_did() -> None:
    logs = Logs()
    logs.later(1_000)
    assert logs.said_of(0, 2) == []
    assert logs.said_of(0, 3) == ["beyond the log"]


def test_there_is_no_log_of_a_partition_that_the_topic_never_had() -> None:
    assert Logs().said_of(0, 0, partition=1) == ["no such log"]
