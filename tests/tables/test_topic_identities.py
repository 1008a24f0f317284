"""What is concluded from the brokers' responses about topic names."""

from __future__ import annotations

import pytest

from sharegroup.job.logs.topic_identities import TopicDescription, TopicIdentities

GRACE_MS = 30_000


def test_a_name_without_a_topic_does_not_make_its_brokers_ones_without_ids() -> None:
    """Otherwise the next topic's log would restart the deleted topic's log when an older response comes again."""
    answers: dict[str, TopicDescription | None] = {"orders": TopicDescription("id-1", {0: 1})}
    topics = TopicIdentities(lambda names: {name: answers[name] for name in names}, GRACE_MS)
    told = [topics.has_id("orders")]
    topics.poll_now(["orders"], 0)
    told.append(topics.has_id("orders"))
    answers["orders"] = None
    topics.poll_now(["orders"], 1)
    told.append(topics.has_id("orders"))
    assert told == [True, True, True]


def test_a_broker_that_reports_a_topic_without_an_id_has_no_ids() -> None:
    topics = TopicIdentities(lambda names: {name: TopicDescription("", {0: 1}) for name in names}, GRACE_MS)
    topics.poll([("orders", "id-made-of-the-name")], 0)
    assert not topics.has_id("orders")


def test_a_topic_created_after_a_long_absence_is_not_taken_for_deleted() -> None:
    """The broker that is queried first may not have it yet; an id that was taken for deleted is never served again."""
    old, new = ("orders", "id-1"), ("orders", "id-2")
    answers: dict[str, TopicDescription | None] = {"orders": TopicDescription("id-1", {0: 1})}
    topics = TopicIdentities(lambda names: {name: answers[name] for name in names}, GRACE_MS)
    topics.poll([old], 0)
    answers["orders"] = None
    gone = []
    for now_ms in range(10_000, 60_000, 10_000):
        topics.poll([old], now_ms)
        gone.append(topics.is_gone(*old))
    assert gone == [False, False, False, True, True]
    gone = []
    for now_ms in range(90_000, 140_000, 10_000):
        topics.poll([new], now_ms)
        gone.append(topics.is_gone(*new))
    assert gone == [False, False, False, True, True]
    answers["orders"] = TopicDescription("id-3", {0: 1})
    topics.poll([("orders", "id-3")], 140_000)
    assert not topics.is_gone("orders", "id-3")


@pytest.mark.parametrize("is_first_topic", [True, False])
def test_time_without_responses_does_not_count_for_a_deletion(is_first_topic: bool) -> None:
    """Brokers may be silent between two starts, in each of which they do not know their topics yet, or the job's
    machine may be suspended."""
    topic = ("orders", "id-1")
    answers: dict[str, TopicDescription | None] = {"orders": None}
    topics = TopicIdentities(lambda names: {name: answers[name] for name in names}, GRACE_MS)
    if not is_first_topic:
        topics.poll_now(["orders"], -3_600_000)
        topics.poll_now(["orders"], -1_000)
    gone = []
    for now_ms in (0, 1_000, 3_600_000, 3_605_000, 3_610_000, 3_620_000):
        topics.poll([topic], now_ms)
        gone.append(topics.is_gone(*topic))
    assert gone == [False, False, False, False, False, True]
