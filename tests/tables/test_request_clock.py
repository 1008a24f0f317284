"""The safe time: before it, every request has been read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import TopicPartition

from sharegroup.watch.request_clock import RequestClock, SafeClock


def test_a_time_is_safe_when_what_was_there_then_has_been_read() -> None:
    clock = SafeClock()
    clock.observe(1_000, {0: 5, 1: 0})
    clock.observe(2_000, {0: 9, 1: 1})
    assert clock.safe_ms({}) == 0
    assert clock.safe_ms({0: 5}) == 1_000
    assert clock.safe_ms({0: 9}) == 1_000
    assert clock.safe_ms({0: 9, 1: 1}) == 2_000


def test_an_empty_topic_is_read_at_once() -> None:
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
    """Brokers that do not know the topic yet, then one partition with a request, whose leader may be silent."""

    def __init__(self) -> None:
        self.partitions: list[TopicPartition] = []
        self.is_silent = False

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return self.partitions

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self.is_silent else dict.fromkeys(partitions, 0)

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self.is_silent else dict.fromkeys(partitions, 1)


def test_no_time_is_safe_until_all_leaders_of_a_known_topic_answer() -> None:
    poll: Any = Poll()
    clock = RequestClock(poll, "requests", 10_000)
    assert clock.observe(1_000, {}) == (False, 0)
    poll.partitions, poll.is_silent = [TopicPartition("requests", 0)], True
    assert clock.observe(2_000, {}) == (False, 0)
    poll.is_silent = False
    assert clock.observe(3_000, {}) == (True, 0)
    assert clock.observe(4_000, {0: 1}) == (False, 4_000)
