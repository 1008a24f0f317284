"""The job's topics and its producer, with brokers that say what the test wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import ConfigResource, NewTopic
from kafka.errors import KafkaTimeoutError, TopicAlreadyExistsError

from sharegroup.topics import kafka_clients
from sharegroup.topics.kafka_clients import KafkaRowProducer, KafkaUnavailableError, UnfitTopicsError, create_topics

TOPICS = {"requests": 4, "responses": 2}
FIT = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}


class Admin:
    """A cluster with these topics, {name: configs}; `raced` come into being just before the job makes its own."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]], raced: Mapping[str, Mapping[str, str]] | None = None):
        self.topics, self.raced = dict(topics), raced

    def __call__(self, **settings: Any) -> Admin:
        return self

    def list_topics(self) -> list[str]:
        return list(self.topics)

    def create_topics(self, topics: Collection[NewTopic]) -> None:
        if self.raced:
            self.topics.update(self.raced)
            raise TopicAlreadyExistsError
        self.topics.update((topic.name, topic.topic_configs) for topic in topics)

    def wait_for_topics(self, names: Collection[str]) -> None:
        assert set(names) <= self.topics.keys()

    def describe_configs(self, resources: Collection[ConfigResource], config_filter: str) -> Mapping[str, Any]:
        assert config_filter == "all"
        return {
            "topic": {
                resource.name: {name: {"value": value} for name, value in self.topics[resource.name].items()}
                for resource in resources
            }
        }

    def close(self) -> None:
        """Nothing is open."""


def create(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> None:
    monkeypatch.setattr(kafka_clients, "KafkaAdminClient", admin)
    create_topics({}, TOPICS, 1, 1_000, timed=["requests"])


def test_missing_topics_are_made_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    create(monkeypatch, admin := Admin({"responses": FIT}))
    assert admin.topics == {"responses": FIT, "requests": {**FIT, "retention.ms": "1000"}}


def test_fit_topics_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    by_producers = {**FIT, "message.timestamp.type": "CreateTime"}  # nobody looks at a response's time
    create(monkeypatch, Admin({"requests": FIT, "responses": by_producers}))


def test_everything_unfit_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact,delete"}
    for admin in (Admin({"requests": unfit, "responses": unfit}), Admin({}, {"requests": unfit, "responses": unfit})):
        with pytest.raises(UnfitTopicsError) as caught:
            create(monkeypatch, admin)
        told = str(caught.value).split("; ")
        assert [problem.partition(",")[0] for problem in told] == [
            "topic requests has message.timestamp.type=CreateTime",
            "topic requests has cleanup.policy=compact",
            "topic responses has cleanup.policy=compact",
        ]
        assert told[0].endswith("set message.timestamp.type=LogAppendTime")


def test_configs_that_may_not_be_seen_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create(monkeypatch, Admin({"requests": {}, "responses": FIT}))
    (record,) = caplog.records
    assert record.getMessage().startswith("the configs of topic requests cannot be seen")


def raise_timeout(*args: Any, **settings: Any) -> None:
    raise KafkaTimeoutError("no broker")


def test_a_producer_without_brokers_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "KafkaProducer", raise_timeout)
    with pytest.raises(KafkaUnavailableError, match="cannot connect to Kafka"):
        KafkaRowProducer({}, "responses", "requests")


def test_a_producer_with_unsent_rows_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = SimpleNamespace(is_closed=False)
    sender.force_close = lambda: setattr(sender, "is_closed", True)
    stuck = SimpleNamespace(close=raise_timeout, _sender=sender)
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **settings: stuck)
    KafkaRowProducer({}, "responses", "requests").close()
    assert sender.is_closed
