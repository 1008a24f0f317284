"""Which partitions are queried for log offsets when topics and leaders disappear and return."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from sharegroup.job.logs.partition_leaders import FIRST_RETRY_MS, MAX_RETRY_MS, PartitionLeaders

O0, O1, BILLS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)
ALL = (O0, O1, BILLS)


class Cluster:
    """The leaders of a cluster; `asked` records the look-ups."""

    def __init__(self, **leaders: Mapping[int, int]) -> None:
        self.topics = dict(leaders)
        self.fault: Exception | None = None
        self.asked: list[list[str]] = []

    def look_up(self, topics: Collection[str]) -> dict[TopicPartition, int]:
        self.asked.append(list(topics))
        if self.fault:
            raise self.fault
        return {TopicPartition(t, p): at for t in topics for p, at in self.topics.get(t, {}).items()}


def test_each_leader_is_queried_for_its_partitions() -> None:
    cluster = Cluster(orders={0: 1, 1: 2}, bills={0: 1})
    leaders = PartitionLeaders(cluster.look_up)
    for now_ms in (0, 1_000):
        assert leaders.with_leader(ALL, now_ms) == {("bills", 1): [BILLS], ("orders", 1): [O0], ("orders", 2): [O1]}
    assert leaders.with_leader([O1], 2_000) == {("orders", 2): [O1]}
    assert cluster.asked == [["bills", "orders"]]


def test_a_partition_without_a_leader_is_looked_up_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(orders={0: 1}, bills={0: 1})
    leaders = PartitionLeaders(cluster.look_up)
    looked_up_at = []
    for now_ms in range(0, 60_000, 50):
        before = len(cluster.asked)
        assert leaders.with_leader(ALL, now_ms) == {("bills", 1): [BILLS], ("orders", 1): [O0]}
        leaders.record_response("bills", [BILLS], now_ms)
        leaders.record_response("orders", [O0], now_ms)
        looked_up_at += [now_ms] * (len(cluster.asked) - before)
    waited = [after - before for before, after in itertools.pairwise(looked_up_at)]
    assert waited == [min(FIRST_RETRY_MS * 2**n, MAX_RETRY_MS) for n in range(len(waited))]
    assert cluster.asked[1:] == [["orders"]] * len(waited)
    assert caplog.messages == ["topic orders: log offsets cannot be polled; retrying: no leader for partition 1"]


def test_a_returning_leader_is_queried_again_without_a_long_pause(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    leaders = PartitionLeaders(cluster.look_up)
    for now_ms in range(0, 60_000, 50):
        assert leaders.with_leader([O0], now_ms) == {}
    cluster.topics["orders"] = {0: 3}
    found = leaders.with_leader([O0], 60_000 + MAX_RETRY_MS)
    assert found == {("orders", 3): [O0]}
    leaders.record_response("orders", [O0], 63_500)
    assert caplog.messages[1:] == ["topic orders: log offsets are polled again after 63.5 s of failures"]
    leaders.record_no_response("orders", 3, [O0], 80_000)
    assert leaders.with_leader([O0], 80_000 + FIRST_RETRY_MS - 1) == {}
    assert leaders.with_leader([O0], 80_000 + FIRST_RETRY_MS) == {("orders", 3): [O0]}


def test_a_silent_leader_is_looked_up_again_for_its_other_topics() -> None:
    cluster = Cluster(orders={0: 1, 1: 2}, bills={0: 1})
    leaders = PartitionLeaders(cluster.look_up)
    leaders.with_leader(ALL, 0)
    leaders.record_no_response("orders", 1, [O0], 1_000)
    cluster.topics = {"orders": {0: 2, 1: 2}, "bills": {0: 2}}
    assert leaders.with_leader(ALL, 1_001) == {("bills", 2): [BILLS], ("orders", 2): [O1]}
    assert leaders.with_leader(ALL, 2_000) == {("bills", 2): [BILLS], ("orders", 2): [O0, O1]}
    assert cluster.asked[1:] == [["bills"], ["orders"]]


def test_a_leader_that_never_responds_is_queried_less_often(caplog: pytest.LogCaptureFixture) -> None:
    leaders = PartitionLeaders(Cluster(orders={0: 1, 1: 2}).look_up)
    asked = 0
    for now_ms in range(0, 60_000, 50):
        found = leaders.with_leader([O0, O1], now_ms)
        assert found.pop(("orders", 2)) == [O1]
        leaders.record_response("orders", [O1], now_ms)
        if found:
            asked += 1
            leaders.record_no_response("orders", 1, [O0], now_ms)
    assert asked <= 60_000 // MAX_RETRY_MS + 5
    assert caplog.messages == []  # the client logs it


@pytest.mark.parametrize("fault", [KafkaTimeoutError("nobody there"), ValueError("what kafka-python thinks of it")])
def test_a_failed_look_up_is_retried(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(orders={0: 1})
    cluster.fault = fault
    leaders = PartitionLeaders(cluster.look_up)
    assert leaders.with_leader([O0], 0) == leaders.with_leader([O0], FIRST_RETRY_MS) == {}
    cluster.fault = None
    assert leaders.with_leader([O0], FIRST_RETRY_MS * 3) == {("orders", 1): [O0]}
    assert [type(fault).__name__ in message for message in caplog.messages] == [True]


def test_an_invalid_topic_name_is_never_looked_up() -> None:
    cluster = Cluster(orders={0: 1})
    leaders = PartitionLeaders(cluster.look_up)
    unheard_of = [TopicPartition(name, 0) for name in ("bad name", "", "..", "t" * 250)]
    assert leaders.with_leader([O0, *unheard_of], 0) == {("orders", 1): [O0]}
    assert cluster.asked == [["orders"]]


def test_of_many_partitions_without_a_leader_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    PartitionLeaders(Cluster().look_up).with_leader([TopicPartition("orders", p) for p in range(1_000)], 0)
    assert caplog.messages[0].endswith("no leader for partition 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more")
