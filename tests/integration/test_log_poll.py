"""Log offsets of topics that a broker has, has no more, and never had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from sharegroup.channel.client_settings import python_properties
from sharegroup.spark.log_poll import LogPoll
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testkit.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic


@pytest.fixture
def poll(kafka: EmbeddedKafka) -> Iterator[LogPoll]:
    poll = LogPoll(python_properties(kafka.bootstrap_servers, {}), timeout_ms=300)
    yield poll
    poll.close()


def test_a_topic_that_is_deleted(kafka: EmbeddedKafka, new_topic: NewTopic, poll: LogPoll) -> None:
    kept, gone = new_topic(2, 3), new_topic(1, 3)
    of_kept, of_gone = [TopicPartition(kept, 0), TopicPartition(kept, 1)], [TopicPartition(gone, 0)]
    assert set(poll.leaders_of([kept, gone, "never-had", "bad name"])) == {*of_kept, *of_gone}
    assert poll.ends(of_gone) == {of_gone[0]: 3}
    kafka.admin_client().delete_topics([gone])
    wait_until(lambda: not poll.leaders_of([gone]), "the topic is gone")
    with pytest.raises(KafkaTimeoutError):
        poll.ends(of_gone)
    poll.forget_leaders()
    assert poll.ends(of_kept) == dict.fromkeys(of_kept, 3)
    assert not {gone, "never-had"}.intersection(kafka.topics())
