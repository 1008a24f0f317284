"""ListGroups and DeleteGroups: groups of the upstream and of the gateway."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.groups.delete_groups import DeleteGroups
from sharegroup.gateway.handlers.groups.list_groups import ListGroups, listing_broker
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest
from sharegroup.security.caller import Caller
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import (
    ALICE,
    EVERYTHING_ALLOWED,
    FixedTables,
    RecordedRequests,
    ScriptedUpstream,
    answer,
)

OURS = {"orders": "Stable", "old-orders": "Empty"}
LIST_GROUPS = 16


def listed(*rows: tuple[str, str, str]) -> Any:
    return ListGroupsResponse(
        error_code=0,
        groups=[
            ListGroupsResponse.ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type=kind)
            for name, state, kind in rows
        ],
    )


def upstream(version: int = 5, node_ids: tuple[int, ...] = (1,), **answers: Any) -> ScriptedUpstream:
    brokers = [SimpleNamespace(node_id=node_id) for node_id in node_ids]
    rows = listed(("billing", "Stable", "classic"), ("hidden", "Empty", "share"), ("stream", "Empty", "Consumer"))
    return ScriptedUpstream(
        {
            "ListGroupsRequest": lambda _: rows,
            "MetadataRequest": lambda _: SimpleNamespace(brokers=brokers),
            **answers,
        },
        versions={LIST_GROUPS: version},
        node_ids=node_ids,
    )


def names(cluster: ScriptedUpstream, version: int = 5, caller: Caller = ALICE, **asked: Any) -> set[str]:
    handler = ListGroups(FixedTables(OURS), cluster, EVERYTHING_ALLOWED)
    response = answer(handler, ListGroupsRequest(**asked), ListGroupsResponse, version, caller)
    assert not response.error_code
    return {group.group_id for group in response.groups}


@pytest.mark.parametrize("version", range(6))
def test_our_share_groups_replace_the_upstreams(version: int) -> None:
    assert names(upstream(), version) == {"billing", "stream", "orders", "old-orders"}


def test_our_groups_are_listed_with_type_and_state() -> None:
    handler = ListGroups(FixedTables(OURS), upstream(), EVERYTHING_ALLOWED)
    response = answer(
        handler, ListGroupsRequest(states_filter=["STABLE"], types_filter=["Share"]), ListGroupsResponse, 5
    )
    (row,) = response.groups
    assert (row.group_id, row.protocol_type, row.group_state, row.group_type) == ("orders", "share", "Stable", "share")


def test_groups_are_filtered_by_state_and_type() -> None:
    assert names(upstream(), states_filter=["empty"]) == {"stream", "old-orders"}
    assert names(upstream(), types_filter=["consumer"]) == {"stream"}
    assert names(upstream(), types_filter=["share", "classic"], states_filter=["Stable"]) == {"billing", "orders"}


def test_share_groups_are_not_requested_from_the_upstream() -> None:
    """Brokers with share groups would list them in vain, and older ones do not support the type."""
    cluster = upstream()
    assert names(cluster, types_filter=["Share", "Consumer"]) == {"stream", "orders", "old-orders"}
    assert [request.types_filter for request in cluster.asked if request.name == "ListGroupsRequest"] == [["Consumer"]]


def test_share_groups_are_listed_without_the_upstream() -> None:
    cluster = ScriptedUpstream()  # does not respond
    assert names(cluster, types_filter=["share"]) == {"orders", "old-orders"}


def test_groups_of_an_old_upstream_are_classic() -> None:
    rows = listed(("billing", "Stable", ""), ("idle", "Empty", ""))
    cluster = upstream(4, ListGroupsRequest=lambda _: rows)
    assert names(cluster, types_filter=["classic"]) == {"billing", "idle"}
    assert names(cluster, types_filter=["consumer"]) == set()
    assert names(upstream(3, ListGroupsRequest=lambda _: rows), states_filter=["Stable"]) == {"orders"}


def test_each_share_group_is_listed_on_one_port() -> None:
    brokers = (1, 2, 5)
    ports = [Caller(1, node_id, "127.0.0.1") for node_id in brokers]
    found = [names(upstream(node_ids=brokers), caller=port, types_filter=["share"]) for port in ports]
    assert sorted(name for port in found for name in port) == sorted(OURS)


def test_few_groups_change_ports_when_a_broker_joins() -> None:
    groups = [f"group-{number}" for number in range(300)]
    moved = [name for name in groups if listing_broker(name, [3, 1, 2]) != listing_broker(name, [1, 2, 3, 4])]
    assert 0 < len(moved) < 150
    assert {listing_broker(name, [1, 2, 3, 4]) for name in moved} == {4}


def test_caller_sees_only_groups_that_it_may_describe() -> None:
    handler = ListGroups(FixedTables(OURS), upstream(), alice_may("Describe group o*"))
    response = answer(handler, ListGroupsRequest(), ListGroupsResponse, 5)
    assert {group.group_id for group in response.groups} == set(OURS)


def test_errors_of_tables_and_upstream_are_returned() -> None:
    away = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    handler = ListGroups(away, upstream(), EVERYTHING_ALLOWED)
    response = answer(handler, ListGroupsRequest(), ListGroupsResponse, 5)
    assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    loading = ListGroupsResponse(error_code=14, groups=[])
    handler = ListGroups(FixedTables(OURS), upstream(ListGroupsRequest=lambda _: loading), EVERYTHING_ALLOWED)
    assert answer(handler, ListGroupsRequest(), ListGroupsResponse, 5).error_code == 14


# -- DeleteGroups


def deleted(request: Any) -> Any:
    result = DeleteGroupsResponse.DeletableGroupResult
    return DeleteGroupsResponse(results=[result(group_id=name, error_code=0) for name in request.groups_names])


def codes(cluster: ScriptedUpstream, requests: RecordedRequests, *group_ids: str, version: int = 2) -> dict[str, int]:
    handler = DeleteGroups(requests, FixedTables(OURS), cluster, EVERYTHING_ALLOWED)
    response = answer(handler, DeleteGroupsRequest(groups_names=list(group_ids)), DeleteGroupsResponse, version)
    return {result.group_id: result.error_code for result in response.results}


@pytest.mark.parametrize("version", range(3))
def test_share_groups_are_deleted_by_a_row_and_others_upstream(version: int) -> None:
    cluster = upstream(DeleteGroupsRequest=deleted)
    requests = RecordedRequests({"orders": RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")})
    found = codes(cluster, requests, "billing", "orders", "old-orders", "hidden", version=version)
    assert found == {"billing": 0, "orders": 68, "old-orders": 0, "hidden": 69}
    assert requests.rows == [
        DeleteGroupRequest("1", "orders", "gateway"),
        DeleteGroupRequest("1", "old-orders", "gateway"),
    ]
    assert [request.groups_names for request in cluster.asked if request.name == "DeleteGroupsRequest"] == [["billing"]]


def test_upstream_gets_no_request_to_delete_our_groups() -> None:
    cluster = ScriptedUpstream()
    assert codes(cluster, RecordedRequests(), "orders") == {"orders": 0}
    assert not cluster.asked


def test_delete_groups_requires_the_delete_right() -> None:
    handler = DeleteGroups(RecordedRequests(), FixedTables(OURS), ScriptedUpstream(), alice_may())
    response = answer(handler, DeleteGroupsRequest(groups_names=["orders", "x"]), DeleteGroupsResponse, 2)
    assert [result.error_code for result in response.results] == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2


def unavailable(_: Any) -> Any:
    raise UpstreamUnavailableError("no answer from the upstream broker within 30 s")


@pytest.mark.parametrize("silent", ["ListGroupsRequest", "DeleteGroupsRequest"])
def test_our_groups_are_deleted_while_the_upstream_is_not_available(silent: str) -> None:
    found = codes(upstream(**{silent: unavailable}), RecordedRequests(), "billing", "old-orders")
    assert found == {"billing": ErrorCode.COORDINATOR_NOT_AVAILABLE, "old-orders": 0}


def test_groups_are_not_listed_while_the_upstream_is_not_available() -> None:
    handler = ListGroups(FixedTables(OURS), upstream(ListGroupsRequest=unavailable), EVERYTHING_ALLOWED)
    response = answer(handler, ListGroupsRequest(), ListGroupsResponse, 5)
    assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
