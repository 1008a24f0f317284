"""FindCoordinator: the upstream's coordinators with the gateway's ports, for one key and for many."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.fleet.client_view import ClientView
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.upstream.coordinators import ONE_KEY_REQUESTS
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.security.acl import Resource
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from tests.unit.gateway.scripted_upstream import ALICE, EVERYTHING_ALLOWED, ScriptedUpstream, answer

GROUP, TRANSACTION, SHARE = 0, 1, 2
API_KEY = FindCoordinatorRequest.API_KEY
OLD, NEW = 3, 6
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
PORTS = {1: 9192, 2: 9193}


class Coordinators(ScriptedUpstream):
    """Coordinators by key: broker 2 for keys that end with 2, "loading" is loading, "forgotten" has no response.

    `most_at_once` is the largest number of concurrent requests.
    """

    def __init__(self, newest: int) -> None:
        super().__init__(versions={API_KEY: newest})
        self._newest, self._now = newest, 0
        self.most_at_once = 0

    async def ask(self, node_id: int, request: Any, response: Any, max_version: int | None = None) -> Any:
        self.asked.append(request)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        if self._newest < 4:
            found = FindCoordinatorResponse(**_found(request.key))
        else:
            keys = [key for key in request.coordinator_keys if key != "forgotten"]
            entry = FindCoordinatorResponse.Coordinator
            found = FindCoordinatorResponse(coordinators=[entry(key=key, **_found(key)) for key in keys])
        version = self._newest
        return FindCoordinatorResponse.decode(bytes(found.encode(version=version)), version=version)


def _found(key: str) -> dict[str, Any]:
    code = LOADING if key == "loading" else 0
    node_id = 2 if key.endswith("2") else 1
    return {"error_code": code, "error_message": None, "node_id": node_id, "host": "upstream", "port": 9092}


class NoSecrets(Authorization):
    """Nobody may find the group `secret` or a transactional id."""

    def __init__(self) -> None:
        super().__init__(None)

    def authorize_find_coordinator(self, caller: Any, resource: Resource, key: str) -> None:
        if resource is Resource.TRANSACTIONAL_ID:
            raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not you")
        if key == "secret":
            raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you")


async def no_new_ports() -> None:
    """Open no ports, because all brokers have theirs."""


def find(
    upstream: Coordinators, keys: list[str], key_type: int = GROUP, security: Authorization = EVERYTHING_ALLOWED
) -> list[tuple[str, int, int, int]]:
    """Find all keys with one request; return (key, error code, node, port) of each."""
    listeners = Listeners("gateway")
    for node_id, port in PORTS.items():
        listeners.add(node_id, port)
    handler = ClusterApis(upstream, listeners, no_new_ports, security).find_coordinator
    asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    found = answer(handler, asked, FindCoordinatorResponse, version=4)
    assert {c.host for c in found.coordinators if not c.error_code} <= {"gateway"}
    return [(c.key, c.error_code, c.node_id, c.port) for c in found.coordinators]


def keys_asked(upstream: Coordinators) -> list[list[str]]:
    return [list(request.coordinator_keys) or [request.key] for request in upstream.asked]


@pytest.mark.parametrize("newest", [4, NEW])
def test_many_keys_take_one_upstream_request(newest: int) -> None:
    upstream = Coordinators(newest)
    found = find(upstream, ["g1", "g2", "g1", "loading", "forgotten"])
    assert found == [
        ("g1", 0, 1, 9192),
        ("g2", 0, 2, 9193),
        ("g1", 0, 1, 9192),
        ("loading", LOADING, -1, -1),
        ("forgotten", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1),
    ]
    assert keys_asked(upstream) == [["g1", "g2", "loading", "forgotten"]]


def test_old_broker_gets_a_concurrent_request_per_key() -> None:
    upstream = Coordinators(OLD)
    keys = [f"g{number}" for number in range(200)]
    found = find(upstream, [*keys, *keys])
    assert found == [(key, 0, 2, 9193) if key.endswith("2") else (key, 0, 1, 9192) for key in [*keys, *keys]]
    assert sorted(keys_asked(upstream)) == sorted([key] for key in keys)
    assert upstream.most_at_once == ONE_KEY_REQUESTS


@pytest.mark.parametrize("newest", [OLD, NEW])
def test_keys_without_permission_are_not_sent_upstream(newest: int) -> None:
    upstream = Coordinators(newest)
    found = find(upstream, ["secret", "g1"], GROUP, NoSecrets())
    assert found == [("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, -1), ("g1", 0, 1, 9192)]
    assert keys_asked(upstream) == [["g1"]]
    refused = find(upstream, ["t1", "t2"], TRANSACTION, NoSecrets())
    assert refused == [(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1) for key in ("t1", "t2")]
    assert len(upstream.asked) == 1


def test_share_coordinator_is_the_gateway() -> None:
    upstream = Coordinators(NEW)
    assert find(upstream, ["g:t:0", "g:t:1"], SHARE) == [(key, 0, ALICE.node_id, 9192) for key in ("g:t:0", "g:t:1")]
    assert not upstream.asked


@pytest.mark.parametrize("version", range(4))
def test_old_client_finds_one_key(version: int) -> None:
    upstream = Coordinators(NEW)
    listeners = Listeners("gateway")
    listeners.add(2, 9193)
    handler = ClusterApis(upstream, listeners, no_new_ports, EVERYTHING_ALLOWED).find_coordinator
    found = answer(handler, FindCoordinatorRequest(key="g2"), FindCoordinatorResponse, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 2, "gateway", 9193)


def test_coordinator_without_a_port_is_not_available() -> None:
    upstream, opened = Coordinators(NEW), []

    async def open_ports() -> None:
        opened.append(True)

    handler = ClusterApis(upstream, Listeners("gateway"), open_ports, EVERYTHING_ALLOWED).find_coordinator
    asked = FindCoordinatorRequest(coordinator_keys=["g1", "g2"])
    found = answer(handler, asked, FindCoordinatorResponse, version=6)
    assert {c.error_code for c in found.coordinators} == {int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
    assert opened == [True]


def test_client_that_may_have_moved_asks_twice_on_each_connection() -> None:
    """After the first answer, librdkafka forgets the address of its coordinator."""
    upstream = Coordinators(NEW)

    async def view_of(_: Caller) -> ClientView:
        return ClientView({1: ("gateway", 9192), 2: ("gateway", 9193)}, may_have_moved=True)

    handler = ClusterApis(upstream, Listeners("gateway"), no_new_ports, EVERYTHING_ALLOWED, view_of).find_coordinator
    asked = FindCoordinatorRequest(coordinator_keys=["g1", "g2"])
    again = replace(ALICE, connection_id=ALICE.connection_id + 1)
    for caller, node_ids in (ALICE, [-1, -1]), (ALICE, [1, 2]), (again, [-1, -1]), (again, [1, 2]):
        found = answer(handler, asked, FindCoordinatorResponse, version=6, caller=caller)
        assert [c.node_id for c in found.coordinators] == node_ids
        code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE) if -1 in node_ids else 0
        assert {c.error_code for c in found.coordinators} == {code}
