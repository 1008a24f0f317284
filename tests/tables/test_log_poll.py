"""Log offsets when the client library has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.spark import log_poll
from sharegroup.spark.log_poll import LogPoll

OLD, NEW = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Consumer:
    """Like kafka-python's, which looks up what it was asked for among what it got."""

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: int | None) -> dict[TopicPartition, int]:
        assert timeout_ms == 70
        found = {OLD: 5}
        return {partition: found[partition] for partition in partitions}

    beginning_offsets = end_offsets


@pytest.fixture
def poll(monkeypatch: pytest.MonkeyPatch) -> LogPoll:
    monkeypatch.setattr(log_poll, "offsets_consumer", lambda *_: Consumer())
    return LogPoll({}, timeout_ms=70)


def test_the_offsets_of_a_partition_that_is_too_new_are_no_surprise(poll: LogPoll) -> None:
    asks: list[Any] = [poll.ends, poll.starts]
    for ask in asks:
        assert ask([]) == {}
        assert ask([OLD]) == {OLD: 5}
        with pytest.raises(KafkaError, match="partition=1"):
            ask([OLD, NEW])
