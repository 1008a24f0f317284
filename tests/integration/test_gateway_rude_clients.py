"""What the limits for rude clients leave to good ones: everything, against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.config import Config
from tests.integration.test_gateway_bad_input import produce
from tests.processes.served_clients import Serve

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.thorough

MIB = 1_048_576


def topics_of(answer: Any) -> dict[str, Any]:
    """All that a response says of its topics; the job's own are there when a job has run."""
    own = Config().row_topics
    return {topic.name: topic.to_dict() for topic in answer.topics if topic.name not in own}


@pytest.mark.parametrize("version", range(13))
async def test_metadata_is_the_brokers_own_at_the_gateways_addresses(
    kafka: EmbeddedKafka, serve: Serve, new_topic: NewTopic, version: int
) -> None:
    """Of all topics, and of some of which one is not there (older versions would have it made)."""
    several, one = new_topic(partitions=7), new_topic()
    missing = ["missing-topic"] if version >= 4 else []
    asked_for: list[list[Any] | None] = [
        [] if version == 0 else None,
        [MetadataRequest.MetadataRequestTopic(name=name) for name in (several, one, *missing)],
    ]
    gateway, client = await serve()
    await client.connect()
    broker = client.another()
    broker.port = kafka.port
    await broker.connect()
    for topics in asked_for:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        ours = await client.ask(request, MetadataResponse, version)
        its = await broker.ask(request, MetadataResponse, version)
        assert topics_of(ours) == topics_of(its)
        assert not {topic.name for topic in ours.topics}.intersection(Config().row_topics)
        assert [(each.node_id, each.host, each.port) for each in ours.brokers] == [
            (node_id, host, port) for node_id, (host, port) in gateway.addresses.items()
        ]
        assert (ours.cluster_id, ours.controller_id) == (its.cluster_id, its.controller_id)


async def test_requests_that_are_larger_than_the_budget_pass_through_one_by_one(
    kafka: EmbeddedKafka, serve: Serve, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("large")
    kafka.create_topic(topic, config={"max.message.bytes": str(20 * MIB)})
    gateway, client = await serve({"gateway.queued.max.request.bytes": MIB})
    address, messages = f"127.0.0.1:{client.port}", [bytes(5 * MIB)] * 3
    await asyncio.gather(*(asyncio.to_thread(produce, address, topic, messages) for _ in range(3)))
    assert gateway.parts.budget.used_bytes == 0
