"""The job's topics and its producer, with scripted brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import ConfigResource, NewTopic
from kafka.errors import InvalidReplicationFactorError, KafkaTimeoutError, TopicAlreadyExistsError

from sharegroup.kafka_clients import kafka_clients
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer, KafkaUnavailableError
from sharegroup.kafka_clients.row_topics import job_topics
from sharegroup.kafka_clients.row_topics.job_topics import CLUSTER_MAXIMUM, UnfitTopicsError, create_topics

TOPICS = {"requests": 4, "responses": 2}
FIT = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
#: The configs that the job adds where it creates three replicas.
SAFE = {"retention.ms": "1000", "min.insync.replicas": "2"}


class Admin:
    """A cluster with these topics, {name: configs}; `raced` are created just before the job creates its own.

    `fenced` brokers hold no replicas. A replication factor that is not `allowed` is rejected; -1 means `default`.
    """

    def __init__(
        self,
        topics: Mapping[str, Mapping[str, str]],
        raced: Mapping[str, Mapping[str, str]] | None = None,
        *,
        brokers: int = 3,
        fenced: int = 0,
        allowed: Iterable[int] = range(1, 100),
        default: int = 2,
    ):
        self.topics, self.raced = dict(topics), raced
        self.brokers, self.fenced, self.allowed, self.default = brokers, fenced, allowed, default
        self.replicas = dict.fromkeys(self.topics, 2)
        #: Topics that the broker that responds does not know yet.
        self.unknown: set[str] = set()

    def __call__(self, **settings: Any) -> Admin:
        return self

    def list_topics(self) -> list[str]:
        return list(self.topics)

    def create_topics(self, topics: Collection[NewTopic]) -> None:
        if self.raced:
            self.topics.update(self.raced)
            self.replicas.update(dict.fromkeys(self.raced, 2))
            raise TopicAlreadyExistsError
        for topic in topics:
            if (replicas := topic.replication_factor) not in (-1, *self.allowed):
                raise InvalidReplicationFactorError
            self.topics[topic.name] = topic.topic_configs
            self.replicas[topic.name] = self.default if replicas == -1 else replicas

    def describe_cluster(self) -> Mapping[str, Any]:
        brokers = [{"broker_id": number, "is_fenced": number < self.fenced} for number in range(self.brokers)]
        return {"brokers": brokers}

    def describe_topics(self, names: Collection[str]) -> list[Mapping[str, Any]]:
        found = {name: [{"replica_nodes": list(range(self.replicas[name]))}] for name in names}
        return [{"name": name, "partitions": [] if name in self.unknown else found[name]} for name in names]

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
        """Do nothing, because nothing is open."""


def create(monkeypatch: pytest.MonkeyPatch, admin: Admin, replication: int = CLUSTER_MAXIMUM) -> None:
    monkeypatch.setattr(job_topics, "KafkaAdminClient", admin)
    create_topics({}, TOPICS, replication, 1_000, timed=["requests"])


def test_missing_topics_are_made_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    create(monkeypatch, admin := Admin({"responses": FIT}))
    assert admin.topics == {"responses": FIT, "requests": {**FIT, **SAFE}}


def test_fewer_than_three_replicas_are_left_the_brokers_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    for admin in (Admin({}, brokers=2), Admin({}, allowed=[2])):
        create(monkeypatch, admin)
        assert admin.topics == {name: {**FIT, "retention.ms": "1000"} for name in TOPICS}


def test_a_start_logs_replicas_and_min_insync_replicas(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", job_topics.__name__)
    create(monkeypatch, Admin({}))
    create(monkeypatch, Admin({"requests": {**FIT, "min.insync.replicas": "1"}}))
    assert caplog.messages == [
        "topics requests, responses have replicas: 3, min.insync.replicas: 2",
        "topics requests have replicas: 2, min.insync.replicas: 1",
        "topics responses have replicas: 3, min.insync.replicas: 2",
    ]


def test_fit_topics_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    by_producers = {**FIT, "message.timestamp.type": "CreateTime"}  # nobody reads the time of a response
    create(monkeypatch, Admin({"requests": FIT, "responses": by_producers}))


def test_all_unfit_topics_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
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
    caplog.set_level("WARNING", job_topics.__name__)
    create(monkeypatch, Admin({"requests": {}, "responses": FIT}))
    (record,) = caplog.records
    assert record.getMessage().startswith("not allowed to describe topic requests;")


@pytest.mark.parametrize(
    ("admin", "replication", "made"),
    [
        pytest.param(Admin({}), CLUSTER_MAXIMUM, 3, id="three brokers"),
        pytest.param(Admin({}, brokers=5), CLUSTER_MAXIMUM, 3, id="more than three"),
        pytest.param(Admin({}, brokers=4, fenced=2), CLUSTER_MAXIMUM, 2, id="two that are there"),
        pytest.param(Admin({}, brokers=1), CLUSTER_MAXIMUM, 1, id="one"),
        pytest.param(Admin({}, allowed=[2], default=2), CLUSTER_MAXIMUM, 2, id="what the brokers' policy says"),
        pytest.param(Admin({}, brokers=5), 5, 5, id="what the configuration says"),
        pytest.param(Admin({}, brokers=5), 1, 1, id="one, by the configuration"),
    ],
)
def test_the_job_makes_as_many_replicas_as_there_can_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, admin: Admin, replication: int, made: int
) -> None:
    create(monkeypatch, admin, replication)
    assert admin.replicas == {"requests": made, "responses": made}
    warned = [
        message for message in caplog.messages if message.startswith("topics requests, responses have one replica")
    ]
    assert len(warned) == (made == 1)


def test_a_number_of_replicas_that_the_brokers_cannot_have_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaUnavailableError, match="cannot create the topics requests, responses"):
        create(monkeypatch, Admin({}, allowed=[1]), 3)


def test_an_existing_topic_with_one_replica_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin = Admin({"requests": FIT, "responses": FIT})
    admin.replicas["responses"] = 1
    caplog.set_level("WARNING", job_topics.__name__)
    create(monkeypatch, admin)
    (message,) = caplog.messages
    assert message.startswith("topics responses have one replica: ")


def raise_timeout(*args: Any, **settings: Any) -> None:
    raise KafkaTimeoutError("no broker")


def test_spark_gives_up_a_call_to_an_unavailable_broker() -> None:
    options = kafka_clients.spark_options("broker:9092", {})
    assert options["kafka.bootstrap.servers"] == "broker:9092"
    assert int(options["kafka.request.timeout.ms"]) <= int(options["kafka.default.api.timeout.ms"]) < 10_000
    # as long in total as Spark retries by default
    assert int(options["kafka.default.api.timeout.ms"]) * int(options["fetchOffset.numRetries"]) >= 120_000


def test_a_longer_request_timeout_is_one_of_sparks_calls_too() -> None:
    """Kafka's clients do not start if a call may take less time than a request."""
    assert kafka_clients.spark_options("", {"request.timeout.ms": "30000"})["kafka.default.api.timeout.ms"] == "30000"
    set_by_user = {"request.timeout.ms": "5000", "default.api.timeout.ms": "6000"}
    assert kafka_clients.spark_options("", set_by_user)["kafka.default.api.timeout.ms"] == "6000"


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


def test_a_broker_that_does_not_know_a_new_topic_yet_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin({})
    admin.unknown = {"responses"}
    create(monkeypatch, admin)
    assert admin.replicas.keys() == {"requests", "responses"}
