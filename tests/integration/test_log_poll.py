"""Log offsets of topics that a broker has, has no more, and never had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition

from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.connections import log_offsets
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic


@pytest.fixture
def poll(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogPoll]:
    """Reads with time for a busy machine."""
    for timeout in ("METADATA_TIMEOUT_S", "OFFSETS_TIMEOUT_S"):
        monkeypatch.setattr(log_offsets, timeout, 600.0)
    poll = LogPoll(python_properties(kafka.bootstrap_servers, {}))
    yield poll
    poll.close()


def test_a_topic_that_is_deleted_and_made_again(kafka: EmbeddedKafka, new_topic: NewTopic, poll: LogPoll) -> None:
    kept, gone = new_topic(2, 3), new_topic(1, 3)
    of_kept, of_gone = [TopicPartition(kept, 0), TopicPartition(kept, 1)], [TopicPartition(gone, 0)]
    described = poll.describe([kept, gone, "never-had", "bad name"])
    assert set(described) == {kept, gone, "never-had"}
    assert described["never-had"] is None
    first = described[gone]
    assert first is not None
    assert (len(first.topic_id), set(first.leaders)) == (22, {0})
    assert poll.ends(of_gone) == {of_gone[0]: 3}
    kafka.admin_client().delete_topics([gone])
    wait_until(lambda: poll.describe([gone])[gone] is None, "the topic is gone")
    assert poll.ends([*of_gone, *of_kept]) == dict.fromkeys(of_kept, 3)
    assert poll.ends(of_kept) == dict.fromkeys(of_kept, 3)
    assert not {gone, "never-had"}.intersection(kafka.topics())
    kafka.admin_client().create_topics({gone: {"num_partitions": 1, "replication_factor": 1}})
    wait_until(lambda: poll.describe([gone])[gone] is not None, "the topic is there again")
    again = poll.describe([gone])[gone]
    assert again is not None
    assert again.topic_id not in ("", first.topic_id)
