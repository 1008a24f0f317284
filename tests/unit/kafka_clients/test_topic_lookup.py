"""The topic ids that a member sends to the job."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sharegroup.kafka_clients import topic_lookup
from sharegroup.kafka_clients.topic_lookup import TopicLookup
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, derive_topic_id, topic_id_text

ORDERS = uuid.UUID("c1b0a6c4-55a0-4c39-9f0e-1d2f3a4b5c6d")


class Admin:
    """An admin client of a cluster with `topics`: {topic: fields of its description}."""

    def __init__(self, topics: dict[str, dict[str, Any]]) -> None:
        self.topics = topics
        self.asked_for_cluster = 0

    def list_topics(self) -> list[str]:
        return list(self.topics)

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [{"name": name, "error_code": 0, "partitions": [{}, {}], **self.topics[name]} for name in names]

    def describe_cluster(self) -> dict[str, Any]:
        self.asked_for_cluster += 1
        return {"cluster_id": "cluster"}

    def close(self) -> None:
        pass


Make = Callable[..., tuple[TopicLookup, Admin]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    def create(**topics: dict[str, Any]) -> tuple[TopicLookup, Admin]:
        admin = Admin(topics)
        monkeypatch.setattr(topic_lookup, "KafkaAdminClient", lambda **_: admin)
        return TopicLookup({}), admin

    return create


def test_id_of_the_broker_is_used_and_missing_topics_are_left_out(make: Make) -> None:
    lookup, admin = make(orders={"topic_id": ORDERS})
    assert lookup.describe_topics(["orders", "missing"]) == {"orders": TopicMetadata(topic_id_text(ORDERS), 2)}
    assert admin.asked_for_cluster == 0


def test_recreated_topic_has_its_new_id(make: Make) -> None:
    lookup, admin = make(orders={"topic_id": ORDERS})
    lookup.describe_topics(["orders"])
    again = uuid.uuid4()
    admin.topics["orders"]["topic_id"] = again
    assert lookup.describe_topics(["orders"]) == {"orders": TopicMetadata(topic_id_text(again), 2)}


@pytest.mark.parametrize("described", [{}, {"topic_id": None}, {"topic_id": NO_TOPIC_ID}])
def test_id_is_derived_from_the_name_if_the_broker_has_none(make: Make, described: dict[str, Any]) -> None:
    lookup, admin = make(orders=described, bills=described)
    assert lookup.describe_topics(["orders", "bills"]) == {
        name: TopicMetadata(topic_id_text(derive_topic_id("cluster", name)), 2) for name in ("orders", "bills")
    }
    assert admin.asked_for_cluster == 1


def test_topic_with_an_error_is_left_out(make: Make) -> None:
    lookup, _ = make(orders={"topic_id": ORDERS, "error_code": 5}, bills={"topic_id": ORDERS, "partitions": []})
    assert lookup.describe_topics(["orders", "bills"]) == {}
