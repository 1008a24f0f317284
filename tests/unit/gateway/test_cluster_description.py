"""DescribeCluster: the upstream's brokers with the gateway's addresses."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.upstream.listeners import Listeners
from tests.unit.gateway.scripted_upstream import EVERYTHING_ALLOWED, ScriptedUpstream, answer

READ, DESCRIBE = 3, 8


async def no_new_ports() -> None:
    """Open no ports, because all brokers have theirs."""


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("operations", [None, {READ, DESCRIBE}])
def test_brokers_are_described_with_our_ports(version: int, operations: set[int] | None) -> None:
    broker = DescribeClusterResponse.DescribeClusterBroker

    def of_upstream(request: Any) -> Any:
        found = DescribeClusterResponse(
            error_code=0,
            error_message=None,
            cluster_id="c",
            controller_id=2,
            brokers=[broker(broker_id=n, host=f"b{n}", port=9092, rack="r", is_fenced=False) for n in (1, 2, 3)],
            authorized_operations=operations,
        )
        return DescribeClusterResponse.decode(bytes(found.encode(version=version)), version=version)

    listeners = Listeners("gateway")
    listeners.add(1, 9192)
    listeners.add(2, 9193)
    cluster = ScriptedUpstream({"DescribeClusterRequest": of_upstream})
    handler = ClusterApis(cluster, listeners, no_new_ports, EVERYTHING_ALLOWED).describe_cluster
    response = answer(handler, DescribeClusterRequest(), DescribeClusterResponse, version)
    assert (response.cluster_id, response.controller_id, response.authorized_operations) == ("c", 2, operations)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "gateway", 9192, "r"),
        (2, "gateway", 9193, "r"),
    ]


@pytest.mark.parametrize(("version", "wanted", "told"), [(2, True, [1, 2, 3]), (2, False, [1, 2]), (1, True, [1, 2])])
def test_fenced_brokers_are_returned_on_request(version: int, wanted: bool, told: list[int]) -> None:
    """Broker 2 was active when it got its port; broker 3 never was."""
    broker = DescribeClusterResponse.DescribeClusterBroker

    def of_upstream(request: Any) -> Any:
        fenced = (2, 3) if request.include_fenced_brokers else ()
        brokers = [broker(broker_id=n, host=f"b{n}", port=9092, rack=None, is_fenced=n in fenced) for n in (1, 2)]
        if fenced:
            brokers.append(broker(broker_id=3, host="b3", port=9092, rack=None, is_fenced=True))
        return DescribeClusterResponse(error_code=0, cluster_id="c", controller_id=1, brokers=brokers)

    listeners = Listeners("gateway")
    listeners.add(1, 9192)
    listeners.add(2, 9193)
    cluster = ScriptedUpstream({"DescribeClusterRequest": of_upstream})
    handler = ClusterApis(cluster, listeners, no_new_ports, EVERYTHING_ALLOWED).describe_cluster
    asked = DescribeClusterRequest(include_fenced_brokers=wanted)
    response = answer(handler, asked, DescribeClusterResponse, version)
    at = {1: ("gateway", 9192), 2: ("gateway", 9193), 3: ("", -1)}
    expected = [(n, *at[n], wanted and version == 2 and n > 1) for n in told]
    assert [(b.broker_id, b.host, b.port, b.is_fenced) for b in response.brokers] == expected
