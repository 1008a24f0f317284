"""Group ids that are other kinds of groups upstream: whom we ask, how often, and what we do without an answer.

A member that would join one is refused, as by Kafka's coordinator.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups import share_group_names, upstream_groups
from sharegroup.gateway.groups.share_group_names import ShareGroupNames
from sharegroup.gateway.groups.upstream_groups import MAX_KEPT, DescribedGroup, UpstreamGroups
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from tests.harness.event_loop import advance, settle
from tests.unit.gateway.scripted_upstream import FixedTables, ScriptedUpstream

NOT_FOUND = int(ErrorCode.GROUP_ID_NOT_FOUND)
OWN, COORDINATOR = 1, 2
LONG_S = 600.0


@pytest.fixture(autouse=True)
def _time_for_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (upstream_groups, "KEPT_S"),
        (upstream_groups, "LOOKUP_TIMEOUT_S"),
        (share_group_names, "KEPT_S"),
        (share_group_names, "READ_TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, LONG_S)


class Upstream(ScriptedUpstream):
    """Broker 2 coordinates all groups; `states` are those of the classic groups, `described` the codes of others.

    A group that is not named is not there. Requests without an entry in `described` are unknown to the broker.
    """

    def __init__(
        self,
        states: dict[str, str] | None = None,
        described: dict[str, int] | None = None,
        coordinator_error: int = 0,
        find_version: int = 6,
    ) -> None:
        super().__init__(versions={FindCoordinatorRequest.API_KEY: find_version}, node_ids=(OWN, COORDINATOR))
        self.states, self._described, self._error = states or {}, described or {}, coordinator_error
        self.asked_at: list[tuple[str, int]] = []
        self.until: asyncio.Event | None = None

    async def ask(self, node_id: int, request: Any, response: Any, max_version: int | None = None) -> Any:
        self._need(node_id)
        self.asked_at.append((request.name, node_id))
        if self.until is not None:
            await self.until.wait()
        if request.name == "FindCoordinatorRequest":
            coordinator = FindCoordinatorResponse.Coordinator
            found = [coordinator(key=k, error_code=self._error, node_id=COORDINATOR) for k in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        if request.name == "DescribeGroupsRequest":
            (name,) = request.groups
            code = 0 if name in self.states else NOT_FOUND
            group = SimpleNamespace(error_code=code, group_state=self.states.get(name, "Dead"))
            return SimpleNamespace(groups=[group])
        assert (response, max_version) == (DescribedGroup, 0)
        if request.name not in self._described:
            raise UpstreamUnavailableError(f"the broker has no {request.name}")
        return DescribedGroup(self._described[request.name])


def upstream_groups_of(upstream: Upstream, tables: FixedTables | None = None) -> UpstreamGroups:
    return UpstreamGroups(upstream, tables or FixedTables())  # type: ignore[arg-type]


async def kind(upstream: Upstream) -> str | None:
    return await upstream_groups_of(upstream).other_kind(OWN, "g")


NOT_DESCRIBED = {"ConsumerGroupDescribeRequest": NOT_FOUND, "StreamsGroupDescribeRequest": NOT_FOUND}


@pytest.mark.parametrize(
    ("states", "described", "expected"),
    [
        ({}, NOT_DESCRIBED, None),
        ({}, {}, None),
        ({"g": "Stable"}, NOT_DESCRIBED, "classic"),
        ({"g": "Empty"}, {}, "classic"),
        ({"g": "Dead"}, NOT_DESCRIBED, None),  # how old brokers report a missing group
        ({"other": "Stable"}, NOT_DESCRIBED, None),
        ({}, {**NOT_DESCRIBED, "ConsumerGroupDescribeRequest": 0}, "consumer"),
        ({}, {**NOT_DESCRIBED, "StreamsGroupDescribeRequest": 0}, "streams"),
        ({}, {**NOT_DESCRIBED, "ConsumerGroupDescribeRequest": int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}, None),
    ],
)
async def test_coordinator_returns_the_type_of_a_group(
    states: dict[str, str], described: dict[str, int], expected: str | None
) -> None:
    upstream = Upstream(states, described)
    assert await kind(upstream) == expected
    assert upstream.asked_at[0] == ("FindCoordinatorRequest", OWN)
    assert {node_id for _, node_id in upstream.asked_at[1:]} == {COORDINATOR}


async def test_error_of_the_coordinator_is_not_a_group_type() -> None:
    assert await kind(Upstream({"g": "Stable"}, coordinator_error=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))) is None

    class Away(Upstream):
        async def features(self, node_id: int) -> Any:
            raise UpstreamUnavailableError("all brokers are away")

    assert await kind(Away({"g": "Stable"})) is None


async def test_silent_coordinator_delays_only_the_first_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_groups, "LOOKUP_TIMEOUT_S", 0.001)
    upstream = Upstream({"g": "Stable"})
    upstream.until = asyncio.Event()
    groups = upstream_groups_of(upstream)
    assert await groups.other_kind(OWN, "g") is None
    assert await groups.other_kind(OWN, "g") is None
    assert upstream.asked_at == [("FindCoordinatorRequest", OWN)]


async def test_joint_joins_cause_one_query_per_group() -> None:
    upstream = Upstream({"g": "Stable"})
    upstream.until = asyncio.Event()
    groups = upstream_groups_of(upstream)
    waiting = [asyncio.ensure_future(groups.other_kind(OWN, name)) for name in 3 * ["g", "h"]]
    await settle()
    waiting[0].cancel()  # its member has left
    await settle()
    upstream.until.set()
    assert await asyncio.gather(*waiting[1:]) == [None, "classic", None, "classic", None]
    assert await groups.other_kind(OWN, "g") == "classic"
    assert await groups.other_kind(OWN, "h") is None
    assert set(Counter(name for name, _ in upstream.asked_at).values()) == {2}


async def test_query_is_repeated_after_a_while() -> None:
    upstream = Upstream({"g": "Stable"})
    groups = upstream_groups_of(upstream)
    assert await groups.other_kind(OWN, "g") == "classic"
    upstream.states.clear()
    assert await groups.other_kind(OWN, "g") == "classic"
    advance(LONG_S + 1)
    assert await groups.other_kind(OWN, "g") is None


async def test_number_of_kept_results_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_groups, "MAX_KEPT", 3)
    assert MAX_KEPT > 3
    groups = upstream_groups_of(Upstream())
    for number in range(5):
        await groups.other_kind(OWN, f"g{number}")
    assert list(groups._kept) == ["g2", "g3", "g4"]


@pytest.mark.parametrize("code", [0, NOT_FOUND])
def test_only_the_error_code_of_a_described_group_is_read(code: int) -> None:
    """Correlation id, tagged fields; throttle time, one group, its code, and its members, which may be many."""
    frame = struct.pack(">iB", 7, 0) + struct.pack(">iBh", 0, 2, code) + b"\xff" * 1_000
    assert wire.decode_response(DescribedGroup, 0, memoryview(frame)).error_code == code


# -- joining members ---------------------------------------------------------------------------------------------------


async def refusal(upstream: Upstream, tables: FixedTables | None = None) -> tuple[ErrorCode, str] | None:
    """Return the error of a member that joins the group g."""
    try:
        await upstream_groups_of(upstream, tables).check_joined(OWN, "g")
    except RequestError as error:
        return error.code, error.message
    return None


async def test_group_of_another_type_is_not_joined() -> None:
    assert await refusal(Upstream({"g": "Empty"})) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a share group.")


async def test_group_unknown_upstream_is_joined() -> None:
    assert await refusal(Upstream({"other": "Stable"})) is None


async def test_existing_share_group_keeps_its_name() -> None:
    assert await refusal(Upstream({"g": "Stable"}), FixedTables(groups={"g": "Stable"})) is None
    assert await refusal(Upstream({"g": "Stable"}), FixedTables(groups={"other": "Stable"})) is not None


async def test_join_is_retriable_if_the_tables_and_brokers_are_unavailable() -> None:
    unreadable = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    assert await refusal(Upstream({"g": "Stable"}), unreadable) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables")
    assert await refusal(Upstream(), unreadable) is None


# -- names that are only share groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "group_id", "expected"),
    [({}, "share", True), ({}, "other", False), ({"share": "Empty"}, "share", False)],
)
async def test_a_share_groups_name_is_free_only_for_groups_that_exist(
    states: dict[str, str], group_id: str, expected: bool
) -> None:
    groups = upstream_groups_of(Upstream(states), FixedTables(groups={"share": "Empty"}))
    assert await groups.is_only_share_group(OWN, group_id) is expected


@pytest.mark.parametrize(
    ("states", "group_id", "expected"),
    [({}, "share", True), ({}, "other", False), ({"share": "Empty"}, "share", False)],
)
async def test_new_share_group_is_found_immediately(states: dict[str, str], group_id: str, expected: bool) -> None:
    described: Any = {"share": None}
    groups = upstream_groups_of(Upstream(states), FixedTables(described=described))
    assert await groups.is_share_group(OWN, group_id) is expected


async def test_group_unknown_upstream_may_be_a_share_group_without_tables() -> None:
    unreadable = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    groups = upstream_groups_of(Upstream({"classic": "Stable"}), unreadable)
    assert await groups.is_share_group(OWN, "g")
    assert not await groups.is_share_group(OWN, "classic")


class CountedTables(FixedTables):
    """Tables that count reads. After `fail` reads raise; after `hold` they block until `go_on`."""

    def __init__(self) -> None:
        super().__init__(groups={"share": "Empty"})
        self.reads = 0
        self.go_on: asyncio.Event | None = None

    def fail(self) -> None:
        self._error = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables")

    async def listings(self) -> Any:
        self.reads += 1
        if self.go_on is not None:
            await self.go_on.wait()
        return await super().listings()


async def test_names_of_share_groups_are_read_once_for_all_callers() -> None:
    tables: Any = CountedTables()
    names = ShareGroupNames(tables)
    found = await asyncio.gather(*(names.has(name) for name in ("share", "other", "share")))
    assert found == [True, False, True]
    assert await names.has("share")
    assert tables.reads == 1


@pytest.mark.parametrize("is_slow", [True, False])
async def test_the_last_known_names_count_while_the_tables_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    monkeypatch.setattr(share_group_names, "READ_TIMEOUT_S", 0.001)
    tables: Any = CountedTables()
    names = ShareGroupNames(tables)
    assert await names.has("share")
    if is_slow:
        tables.go_on = asyncio.Event()
    else:
        tables.fail()
    advance(LONG_S)
    assert await names.has("share")
    assert await names.has("share")
    assert tables.reads == 2
