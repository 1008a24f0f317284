"""How the brokers' responses about topics are interpreted."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.metadata import MetadataResponse

from sharegroup.job.logs import log_poll
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.job.logs.topic_identities import TopicDescription
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError

_Topic = MetadataResponse.MetadataResponseTopic


class Client:
    """A LogOffsetsClient with some topics."""

    def __init__(self, settings: object) -> None:
        self.asked: list[Collection[str]] = []

    async def fetch_topics(self, names: Collection[str]) -> list[Any]:
        self.asked.append(names)
        if "away" in names:
            raise UpstreamUnavailableError("none of three brokers answers")
        topic_id = uuid.UUID(int=1)
        known = {
            "orders": (0, topic_id),
            "old-broker": (0, None),
            "zero": (0, uuid.UUID(int=0)),
            "gone": (3, uuid.UUID(int=0)),
            "forbidden": (29, topic_id),
            "starting": (5, topic_id),
        }
        partition_of = _Topic.MetadataResponsePartition
        partitions = [partition_of(partition_index=p, leader_id=at) for p, at in ((0, 4), (1, -1), (2, 5))]
        return [
            _Topic(name=name, error_code=known[name][0], topic_id=known[name][1], partitions=partitions)
            for name in names
        ]

    def close(self) -> None:
        pass


@pytest.fixture
def poll(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogPoll]:
    monkeypatch.setattr(log_poll, "LogOffsetsClient", Client)
    made = LogPoll({})
    yield made
    made.close()


def test_a_topic_is_described_by_what_the_broker_reports(poll: LogPoll) -> None:
    leaders = {0: 4, 2: 5}
    assert poll.describe(["orders", "old-broker", "zero", "gone", "forbidden", "starting"]) == {
        "orders": TopicDescription("AAAAAAAAAAAAAAAAAAAAAQ", leaders),
        "old-broker": TopicDescription("", leaders),
        "zero": TopicDescription("", leaders),
        "gone": None,
    }


def test_brokers_are_not_queried_for_no_names_or_invalid_ones(poll: LogPoll) -> None:
    assert poll.describe([]) == {}
    assert poll.describe(["bad name"]) == {}
    assert poll.ends([]) == poll.starts([]) == poll.at_time({}) == {}


def test_without_any_broker_there_is_an_error(poll: LogPoll) -> None:
    with pytest.raises(KafkaConnectionError, match="none of three brokers answers"):
        poll.describe(["away"])
