"""Log offsets when the client library has none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.watch import log_poll
from sharegroup.watch.log_poll import LogPoll
from sharegroup.watch.topic_identities import TopicDescription

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


class Admin:
    """Like kafka-python's, with the topics of `MetadataResponse`."""

    def __init__(self, **_: object) -> None:
        pass

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        topic_id = uuid.UUID(int=1)
        leaders = [{"partition_index": p, "leader_id": at} for p, at in ((0, 4), (1, -1), (2, 5))]
        known = {
            "orders": (0, topic_id, leaders),
            "text": (0, str(topic_id), leaders),
            "old-broker": (0, None, leaders),
            "zero": (0, uuid.UUID(int=0), []),
            "gone": (3, uuid.UUID(int=0), []),
            "forbidden": (29, topic_id, []),
            "starting": (5, topic_id, []),
        }
        fields = ("error_code", "topic_id", "partitions")
        return [{"name": name, **dict(zip(fields, known[name], strict=True))} for name in names]


def test_topics_are_described_by_what_the_broker_will_tell_of_them(
    poll: LogPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_poll, "KafkaAdminClient", Admin)
    names = ["orders", "text", "old-broker", "zero", "gone", "forbidden", "starting"]
    assert poll.describe([]) == {}
    leaders = {0: 4, 2: 5}
    assert poll.describe(names) == {
        "orders": TopicDescription("AAAAAAAAAAAAAAAAAAAAAQ", leaders),
        "text": TopicDescription("AAAAAAAAAAAAAAAAAAAAAQ", leaders),
        "old-broker": TopicDescription("", leaders),
        "zero": TopicDescription("", {}),
        "gone": None,
    }
