"""Rows that their leader has appended in time, while a follower copies nothing: they are not readable yet.

`ListOffsets` returns the high watermark to a consumer (`replica_id` -1, read_uncommitted), not the end of the leader's
log. A row that is not on all in-sync replicas yet has its append time, but is below no end offset that the source gets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition

from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.job.clock.request_clock import RequestClock
from tests.unit.core.operators.shard_driver import (
    GATEWAY,
    T0,
    ShardDriver,
    acknowledge,
    assign,
    config,
    fetch,
    leases_over,
    load,
    log,
    reserve,
    tick,
)


class ReplicatedTopic:
    """A request topic of one partition: the appended rows, and how many of them are on all in-sync replicas."""

    def __init__(self) -> None:
        self.appended, self.replicated = 0, 0

    def append(self, is_replicated: bool = True) -> None:
        self.appended += 1
        if is_replicated:
            self.replicated = self.appended

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0)]

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.replicated)

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As OffsetForLeaderEpoch: the end of the present epoch is the end of the leader's log."""
        return dict.fromkeys(epochs, self.appended)


def test_an_acknowledgement_counts_from_its_append_while_a_follower_copies_nothing() -> None:
    topic: Any = ReplicatedTopic()
    clock, shard = RequestClock(topic, "requests", 10_000), ShardDriver()
    topic.append()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f1"), 0), at=0)  # m1 holds 0..9 until 30 s

    # 24 s: a follower has stopped to copy. The leader appends the acknowledgement, which waits for the follower
    topic.append(is_replicated=False)
    in_time = shard.line(acknowledge("a1", (0, 9, 1), grants=[(0, 9, 1)]), 24_000)

    _, safe_ms = clock.observe(30_100, {0: 1})  # the source looks whether a tick is due
    shard.batch(tick(safe_ms), at=30_100)
    shard.batch(shard.line(fetch("f2", member="m2"), 30_100, kafka_partition=1), at=30_200)

    # 32 s: the follower has caught up. The gateway gets the row's append time, 24 s, and tells the member that the
    # records are accepted.
    output = shard.batch(in_time, at=32_000)
    assert [(row["id"], row["error_code"], row["error_message"]) for row in output.responses] == [("a1", 0, None)]
    assert safe_ms <= 24_000


def test_an_assignment_in_time_counts_while_a_follower_copies_nothing() -> None:
    topic: Any = ReplicatedTopic()
    clock, shard, handover = RequestClock(topic, "requests", 10_000), ShardDriver(), Handover()
    topic.append()
    output = shard.batch(config(), load(0, (0, 0)), shard.line(reserve("r1"), 0), at=0)
    handover.apply(HandoverChange(reservers={"": output.reservers}, leases=output.leases, now_ms=T0))
    # at 9 s, the gateway has renewed its lease for two seconds, because it assigns records
    handover.apply(HandoverChange(leases={GATEWAY: T0 + 11_000}, now_ms=T0 + 9_000))

    # 10.5 s: record 0 arrives. The gateway assigns it within its lease. The row and the next lease renewal wait
    # for the follower, for example for the end of its garbage collection.
    topic.append(is_replicated=False)
    in_time = shard.line(assign(0, 0, valid_until=11_000), 10_500)

    _, safe_ms = clock.observe(11_100, {0: 1})
    if handover.leases.over_at(T0 + safe_ms):
        shard.batch(leases_over(GATEWAY), at=11_100)
    shard.batch(log(1), shard.line(fetch("f2", member="m2"), 11_200, kafka_partition=1), at=11_200)

    # 13.5 s: the row is durable, and the gateway sends the record to m1. m1 accepts it, which the gateway answers early
    shard.batch(in_time, at=13_500)
    output = shard.send(acknowledge("a1", (0, 0, 1), grants=[(0, 0, 1)]), at=13_600)
    assert [(row["id"], row["error_code"], row["error_message"]) for row in output.responses] == [("a1", 0, None)]
