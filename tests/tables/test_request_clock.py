"""The safe time: every request before it has been read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaConnectionError

from sharegroup.job.clock.request_clock import RequestClock, SafeClock


def test_a_time_is_safe_when_all_earlier_requests_have_been_read() -> None:
    clock = SafeClock()
    clock.observe(1_000, {0: 5, 1: 0})
    clock.observe(2_000, {0: 9, 1: 1})
    assert clock.safe_ms({}) == 0
    assert clock.safe_ms({0: 5}) == 1_000
    assert clock.safe_ms({0: 9}) == 1_000
    assert clock.safe_ms({0: 9, 1: 1}) == 2_000


def test_an_empty_topic_counts_as_read() -> None:
    clock = SafeClock()
    clock.observe(1_000, {0: 0, 1: 0})
    assert clock.safe_ms({}) == 1_000


def test_a_safe_time_stays_safe() -> None:
    clock = SafeClock()
    clock.observe(1_000, {0: 5})
    assert clock.safe_ms({0: 5}) == 1_000
    clock.observe(2_000, {0: 8})
    assert clock.safe_ms({0: 6}) == 1_000
    clock.observe(1_500, {0: 6})  # a clock that stepped back
    assert clock.safe_ms({0: 6}) == 1_500


def test_a_long_backlog_moves_the_safe_time_all_the_same() -> None:
    """The reader stays 500 polls behind; the safe time stays about that far behind, and never runs ahead of it."""
    clock, behind = SafeClock(), []
    for poll in range(3_000):
        clock.observe(poll, {0: poll})
        safe_ms = clock.safe_ms({0: poll - 500})
        assert safe_ms <= max(0, poll - 500)
        behind.append(poll - safe_ms)
    assert max(behind[1_500:]) < 1_000


class Poll:
    """Brokers that do not have the topic yet, then one partition with a request, whose leader may be silent."""

    def __init__(self) -> None:
        self.partitions: list[TopicPartition] = []
        self.is_silent = False

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return self.partitions

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self.is_silent else dict.fromkeys(partitions, 0)

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self.is_silent else dict.fromkeys(partitions, 1)

    def leader_epochs(self, _partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def epoch_ends(self, _epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {}


def test_no_time_is_safe_until_all_leaders_respond() -> None:
    poll: Any = Poll()
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {}) == (False, 0)
    poll.partitions, poll.is_silent = [TopicPartition("requests", 0)], True
    assert clock.observe(2_000, {}) == (False, 0)
    poll.is_silent = False
    assert clock.observe(3_000, {}) == (True, 0)
    assert clock.observe(4_000, {0: 1}) == (False, 4_000)


class Waiter:
    """A consumer that has skipped offsets without a row: it is at `position`, and has found nothing."""

    def __init__(self) -> None:
        self.assigned: list[TopicPartition] = []
        self.sought: dict[TopicPartition, int] = {}
        self.skips: dict[int, int] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition] = offset

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        return {}

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return max(self.sought[partition], self.skips.get(partition.partition, 0))


class GrowingPoll(Poll):
    """Partitions with as many offsets as `log_ends` has."""

    def __init__(self, *log_ends: int) -> None:
        super().__init__()
        self.log_ends = list(log_ends)
        self.one_waiter = Waiter()

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        if self.is_silent:
            raise KafkaConnectionError("no broker gives metadata")
        return [TopicPartition("requests", partition) for partition in range(len(self.log_ends))]

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.log_ends[partition.partition] for partition in partitions}

    def waiter(self) -> Waiter:
        return self.one_waiter


def test_an_added_partition_counts_immediately() -> None:
    poll: Any = GrowingPoll(1)
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {0: 1}) == (False, 1_000)
    poll.log_ends.append(1)
    assert clock.observe(1_100, {0: 1}) == (True, 1_000)
    assert clock.observe(1_200, {0: 1, 1: 1}) == (False, 1_200)


def test_no_time_is_safe_while_the_partition_count_is_unknown() -> None:
    poll: Any = GrowingPoll(1)
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {0: 1}) == (False, 1_000)
    poll.is_silent = True
    assert clock.observe(2_000, {0: 1}) == (False, 1_000)


def test_a_transaction_marker_at_the_end_is_no_unread_row() -> None:
    poll: Any = GrowingPoll(5, 1)
    poll.one_waiter.skips = {0: 5}
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {0: 4, 1: 1}) == (True, 0)
    assert clock.observe(2_000, {0: 4, 1: 1}) == (False, 2_000)
    poll.log_ends[0] = 6
    assert clock.observe(3_000, {0: 4, 1: 1}) == (True, 2_000)
    assert clock.observe(3_100, {0: 6, 1: 1}) == (False, 3_100)


def test_an_open_transaction_holds_back_the_safe_time_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    poll: Any = GrowingPoll(5, 1)
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {0: 4, 1: 0}) == (True, 0)
    for now_ms in (2_000, 12_000, 13_000):
        assert clock.observe(now_ms, {0: 4, 1: 1}) == (False, 0), "there is nothing to read"
    assert [record.getMessage() for record in caplog.records] == [
        "requests-0: no row can be read from offset 4 on, but the log ends at 5; a transaction is open, or the leader "
        "does not respond. Until the rows can be read, their requests wait, and no lock or session expires"
    ]
    poll.one_waiter.skips = {0: 5}
    assert clock.observe(14_000, {0: 4, 1: 1}) == (False, 14_000)
