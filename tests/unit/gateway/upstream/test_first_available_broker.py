"""A port whose own broker is unavailable: other brokers answer what any broker can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.gateway.handlers.api_versions import PRODUCE, ApiVersions
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.upstream import first_available_broker
from sharegroup.gateway.upstream.first_available_broker import request_any_broker
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.kafka_clients.connections.connection import Features, UpstreamUnavailableError
from tests.unit.gateway.scripted_upstream import ALICE, EVERYTHING_ALLOWED, ScriptedUpstream, answer

OWN, OTHER = ALICE.node_id, 2


def asked_in_turn(silent: set[int], away: set[int], node_ids: list[int]) -> tuple[list[int], Any]:
    """Return the brokers queried at the port of broker 2, and the result or error. A silent broker never responds."""
    asked: list[int] = []

    async def ask(node_id: int) -> str:
        asked.append(node_id)
        if node_id in silent:
            await asyncio.Event().wait()
        if node_id in away:
            raise UpstreamUnavailableError(f"{node_id} is away")
        return f"from {node_id}"

    try:
        found: Any = asyncio.run(request_any_broker(SimpleNamespace(node_ids=node_ids), 2, ask))
    except UpstreamUnavailableError as error:
        found = str(error)
    return asked, found


@pytest.mark.parametrize(
    ("away", "asked", "found"),
    [
        (set(), [2], "from 2"),
        ({2}, [2, 1], "from 1"),
        ({1, 2}, [2, 1, 3], "from 3"),
        ({1, 2, 3}, [2, 1, 3], "3 is away"),
    ],
)
def test_other_brokers_are_tried_if_the_ports_own_is_away(away: set[int], asked: list[int], found: str) -> None:
    assert asked_in_turn(set(), away, [1, 2, 3]) == (asked, found)


def test_silent_broker_is_left_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_available_broker, "TIMEOUT_S", 0.001)
    assert asked_in_turn({1, 2}, set(), [1, 2, 3]) == ([2, 1, 3], "from 3")


@pytest.mark.parametrize("node_ids", [[], [2]])
def test_only_broker_has_no_timeout(monkeypatch: pytest.MonkeyPatch, node_ids: list[int]) -> None:
    monkeypatch.setattr(first_available_broker, "TIMEOUT_S", 0)
    assert asked_in_turn(set(), set(), node_ids) == ([2], "from 2")


class TwoBrokers(ScriptedUpstream):
    """The port's own broker is away."""

    def __init__(self) -> None:
        brokers = [SimpleNamespace(node_id=OTHER, host="b", port=9092, rack=None)]
        answers: dict[str, Callable[[Any], Any]] = {
            "MetadataRequest": lambda _: MetadataResponse(brokers=brokers, cluster_id="c", topics=[]),
            "FindCoordinatorRequest": lambda _: FindCoordinatorResponse(node_id=OTHER),
            "DescribeClusterRequest": lambda _: DescribeClusterResponse(
                error_code=0,
                cluster_id="c",
                brokers=[DescribeClusterResponse.DescribeClusterBroker(broker_id=OTHER, host="b", port=9092)],
            ),
        }
        super().__init__(
            answers, {PRODUCE: 9, MetadataRequest.API_KEY: 13}, node_ids=(OWN, OTHER), away=frozenset({OWN})
        )

    async def features(self, node_id: int) -> Features:
        found = await super().features(node_id)
        return Features(found.ranges, ApiVersionsResponse())


async def no_new_ports() -> None:
    """Return listeners with a port for each broker."""


def cluster_apis() -> ClusterApis:
    listeners = Listeners("gateway")
    listeners.add(OWN, 9192)
    listeners.add(OTHER, 9193)
    return ClusterApis(TwoBrokers(), listeners, no_new_ports, EVERYTHING_ALLOWED)


def test_client_learns_of_other_brokers_through_one_port() -> None:
    offered = answer(ApiVersions(TwoBrokers()), ApiVersionsRequest(), ApiVersionsResponse, version=3)
    assert PRODUCE in {found.api_key for found in offered.api_keys}

    metadata = answer(cluster_apis().metadata, MetadataRequest(topics=[]), MetadataResponse, version=9)
    assert [(broker.node_id, broker.port) for broker in metadata.brokers] == [(OTHER, 9193)]

    asked = FindCoordinatorRequest(key="g", key_type=0)
    found = answer(cluster_apis().find_coordinator, asked, FindCoordinatorResponse, version=3)
    assert (found.error_code, found.node_id, found.port) == (0, OTHER, 9193)

    cluster = answer(cluster_apis().describe_cluster, DescribeClusterRequest(), DescribeClusterResponse, version=0)
    assert [(broker.broker_id, broker.port) for broker in cluster.brokers] == [(OTHER, 9193)]
