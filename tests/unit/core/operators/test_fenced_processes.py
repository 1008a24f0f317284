"""Fencing of a process that another one has replaced as the member (KIP-345)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import pytest

from sharegroup.core.operators.share_partition import incarnations
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, ReleaseMemberRequest
from sharegroup.types import AcknowledgeType

from .shard_driver import (
    LOCK_MS,
    T0,
    ShardDriver,
    acknowledge,
    answered,
    config,
    fence,
    fences,
    fetch,
    known,
    load,
    log,
    release,
    unacquire,
)

ACCEPT = AcknowledgeType.ACCEPT
FENCED = int(ErrorCode.FENCED_INSTANCE_ID), "another process has joined as member m1"

AnyRequest = TypeVar("AnyRequest", FetchRequest, AcknowledgeRequest, ReleaseMemberRequest, Any)


def of(process: str | None, request: AnyRequest) -> AnyRequest:
    """Return the request with the incarnation id of a process."""
    return dataclasses.replace(request, incarnation_id=process)


def shard(end: int = 100) -> ShardDriver:
    """Return a shard whose member holds 0..3, acquired as process p1."""
    made = ShardDriver()
    made.batch(config(), load(0, (0, end)), at=0)
    made.send(of("p1", fetch("f1", max_records=4)), at=0)
    return made


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        ("fetch", fetch("r", max_records=2)),
        ("acknowledge", acknowledge("r", (0, 3, ACCEPT))),
        ("acknowledge", acknowledge("r", (0, 3, AcknowledgeType.RENEW))),
        ("unacquire", unacquire("r", 0, 3)),
        ("release_member", release("r")),
    ],
)
def test_requests_of_the_previous_process_are_rejected(kind: str, request_: Any) -> None:
    group = shard()
    group.send(fence("p2", 10), at=10)
    before = group.window()
    output = group.send(of("p1", request_), at=20)
    assert output.responses == [answered(kind, "r", error=FENCED)]
    assert group.window() == before


def test_new_process_continues_with_the_members_records() -> None:
    group = shard()
    group.send(fence("p2", 10), at=10)
    responses = group.send(of("p2", acknowledge("a", (0, 3, ACCEPT), grants=[(0, 3, 1)])), at=20).responses
    assert responses == [answered("acknowledge", "a")]
    assert group.window() == []


def test_request_without_incarnation_id_is_served() -> None:
    group = shard()
    group.send(fence("p2", 10), at=10)
    assert group.send(acknowledge("a", (0, 3, ACCEPT)), at=20).responses == [answered("acknowledge", "a")]


def test_another_members_processes_are_their_own() -> None:
    group = shard()
    group.send(fence("p2", 10, member="m2"), at=10)
    assert group.send(of("p1", acknowledge("a", (0, 3, ACCEPT))), at=20).responses == [answered("acknowledge", "a")]


def test_waiting_fetches_of_the_previous_process_get_nothing() -> None:
    group = shard(end=4)
    assert group.send(of("p1", fetch("f2")), fetch("f3", member="m2"), at=5).responses == []
    assert group.send(fence("p2", 10), at=10).responses == [answered("fetch", "f2")]
    assert group.batch(log(5), at=20).responses == [
        answered("fetch", "f3", member="m2", acquired=[[4, 4, 1]], until=20 + LOCK_MS)
    ]


def test_repeated_fence_keeps_the_fetches_of_the_current_process() -> None:
    group = shard(end=4)
    group.send(fence("p2", 10), at=10)
    assert group.send(of("p2", fetch("f2")), fence("p2", 10), at=20).responses == []
    (response,) = group.batch(log(5), at=30).responses
    assert response["acquired"] == [[4, 4, 1]]


def test_late_fence_has_no_effect() -> None:
    group = shard()
    group.send(fence("p3", 20), fence("p2", 10), at=20)
    assert group.send(of("p3", acknowledge("a", (0, 3, ACCEPT))), at=30).responses == [answered("acknowledge", "a")]


def test_fence_may_arrive_before_its_share_partition_is_loaded() -> None:
    group = ShardDriver()
    group.batch(config(), load(0, (0, 9), partition=1), at=0)
    group.send(fence("p2", 10), at=10)
    waiting = of("p1", fetch("f1", max_records=2))
    other = of("p1", fetch("f2", max_records=1, partition=1))
    responses = group.send(waiting, other, at=20).responses
    assert responses == [answered("fetch", "f2", acquired=[[0, 0, 1]], until=20 + LOCK_MS, partition=1)]
    assert group.batch(load(0, (0, 9)), at=30).responses == [answered("fetch", "f1", error=FENCED)]


def test_departed_member_may_rejoin_as_any_process() -> None:
    group = shard()
    group.send(fence("p2", 10), release("left", epoch=3), at=10)
    responses = group.send(of("p1", fetch("f2", max_records=1, epoch=4)), at=20).responses
    assert responses == [answered("fetch", "f2", acquired=[[0, 0, 2]], until=20 + LOCK_MS)]


def test_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incarnations, "MAX_INCARNATIONS", 2)
    group = shard()
    group.send(*[fence("p2", 10, member=member) for member in ("m1", "m2", "m1", "m3", "m2")], at=10)
    entry = ["p2", T0 + 10, {"0": ["p2", T0 + 10]}]
    assert sorted(known(group)["incarnations"].items()) == [("0 m2", entry), ("0 m3", entry)]
    assert group.send(of("p1", acknowledge("a", (0, 3, ACCEPT))), at=20).responses == [answered("acknowledge", "a")]


# -- a fence in each partition of the request topic ------------------------------------------------------------------


@pytest.mark.parametrize(("process", "error"), [("p1", FENCED), ("p2", (0, ""))])
def test_fence_counts_by_its_place_in_each_request_partition(process: str, error: tuple[int, str]) -> None:
    """The clock of the broker that leads partition 5 is behind, so the time of a row there says nothing."""
    group = shard()
    group.batch(group.line(fence("p2", 10), 10), group.line(fence("p2", 10), 6, 5), at=10)
    row = group.line(of(process, acknowledge("a", (0, 3, ACCEPT))), 7, 5)
    assert group.batch(row, at=20).responses == [answered("acknowledge", "a", error=error)]


@pytest.mark.parametrize("process", ["p1", "p2"])
def test_fence_read_early_accepts_what_was_appended_before_the_join(process: str) -> None:
    group = shard()
    group.send(fence("p2", 10), at=10)
    row = group.line(of(process, acknowledge("a", (0, 3, ACCEPT))), 9, 5)
    assert group.batch(row, at=20).responses == [answered("acknowledge", "a")]


def test_late_fence_of_a_partition_is_in_force_there() -> None:
    """Rows of partition 5 wait behind a transaction. What p2 appended before p3 joined remains valid."""
    group = shard()
    group.send(fence("p2", 10), fence("p3", 20), at=20)
    late = [group.line(fence("p2", 10), 10, 5), group.line(of("p1", acknowledge("a", (0, 0, ACCEPT))), 15, 5)]
    late.append(group.line(of("p2", acknowledge("b", (0, 3, ACCEPT))), 15, 5))
    responses = group.batch(*late, group.line(fence("p3", 20), 20, 5), at=30).responses
    assert responses == [answered("acknowledge", "a", error=FENCED), answered("acknowledge", "b")]


def test_fence_that_is_read_late_ends_fetches_of_the_previous_process() -> None:
    group = shard(end=4)
    group.send(fence("p2", 10), at=10)
    assert group.batch(group.line(of("p1", fetch("f2")), 9, 5), at=20).responses == []
    assert group.batch(group.line(fence("p2", 10), 11, 5), at=30).responses == [answered("fetch", "f2")]


def test_fence_of_another_partition_counts_by_time_in_a_new_one() -> None:
    group = shard()
    group.send(fence("p2", 10), at=10)
    row = group.line(of("p1", acknowledge("a", (0, 3, ACCEPT))), 10, 9)
    assert group.batch(row, at=20).responses == [answered("acknowledge", "a", error=FENCED)]


# -- what a state that is loaded knows by the tables ----------------------------------------------------------------


def loaded(*joined: tuple[str, str, int]) -> ShardDriver:
    """Return a shard that is loaded from the tables; its member holds 0..3."""
    made, held = ShardDriver(), [[0, 3, 1, 1, "m1", T0 + LOCK_MS]]
    header = [0, 1, 1, 0, 0, T0, 0, 1]
    made.batch(config(), fences(*joined), load(0, (0, 100), header=header, batches=held), at=0)
    return made


@pytest.mark.parametrize(
    ("process", "append_ms", "error"), [("p1", 10, FENCED), ("p1", 9, (0, "")), ("p2", 9, (0, "")), ("p2", 10, (0, ""))]
)
def test_loaded_fence_rejects_requests_from_the_join_on(process: str, append_ms: int, error: tuple[int, str]) -> None:
    group = loaded(("m1", "p2", 10))
    line = group.line(of(process, acknowledge("a", (0, 3, ACCEPT))), append_ms)
    assert group.batch(line, at=20).responses == [answered("acknowledge", "a", error=error)]


def test_fence_older_than_the_loaded_one_has_no_effect() -> None:
    group = loaded(("m1", "p3", 20))
    group.send(fence("p2", 10), at=30)
    assert group.send(of("p3", acknowledge("a", (0, 3, ACCEPT))), at=40).responses == [answered("acknowledge", "a")]


def test_fence_newer_than_the_loaded_one_has_effect() -> None:
    group = loaded(("m1", "p2", 10))
    group.send(fence("p3", 20), at=20)
    assert group.send(of("p2", fetch("r")), at=30).responses == [answered("fetch", "r", error=FENCED)]


def test_repeated_load_of_a_fence_is_not_newer() -> None:
    group = loaded(("m1", "p2", 10))
    group.send(fence("p3", 20), at=20)
    group.batch(fences(("m1", "p2", 10)), at=30)
    assert group.send(of("p2", fetch("r")), at=40).responses == [answered("fetch", "r", error=FENCED)]


def test_loaded_fence_is_removed_when_the_member_leaves() -> None:
    group = loaded(("m1", "p2", 10))
    group.send(release("left", epoch=3), at=20)
    responses = group.send(of("p1", fetch("f2", max_records=1, epoch=4)), at=30).responses
    assert responses == [answered("fetch", "f2", acquired=[[0, 0, 2]], until=30 + LOCK_MS)]


# -- the first fetch of a process that knows of nothing ----------------------------------------------------------------


def first(request_id: str, opened: int, process: str = "p2", max_records: int = 10) -> FetchRequest:
    """Return the first fetch of a session that was opened `opened` ms after T0."""
    return dataclasses.replace(
        fetch(request_id, max_records=max_records), incarnation_id=process, is_static=True, opened_ms=T0 + opened
    )


def test_new_process_gets_the_members_records_first() -> None:
    group = shard(end=4)
    group.send(fetch("f2", member="m2"), at=5)
    group.send(fence("p2", 10), at=10)
    responses = group.send(first("f3", opened=15), at=20).responses
    assert responses[0] == answered("fetch", "f3", acquired=[[0, 3, 2]], until=20 + 300_000)
    assert [response["acquired"] for response in responses[1:] if response["type"] == "fetch"] == []


def test_records_the_new_process_does_not_fetch_go_to_others() -> None:
    group = shard(end=4)
    group.send(fetch("f2", member="m2"), at=5)
    group.send(fence("p2", 10), at=10)
    responses = group.send(first("f3", opened=15, max_records=1), at=20).responses
    assert [response["acquired"] for response in responses if response["type"] == "fetch"] == [[[0, 0, 2]], [[1, 3, 2]]]


def test_member_without_records_has_no_precedence() -> None:
    group = ShardDriver()
    group.batch(config(), load(0, (0, 0)), at=0)
    group.send(fetch("f1", member="m2"), first("f2", opened=1), at=5)
    (response,) = group.batch(log(1), at=10).responses
    assert (response["id"], response["acquired"]) == ("f1", [[0, 0, 1]])


@pytest.mark.parametrize("opened", [15, 20, 25])
def test_its_first_fetch_that_comes_twice_releases_nothing(opened: int) -> None:
    """The gateway sends the opening time by its estimate of broker time, which may be ahead."""
    group = shard()
    group.send(fence("p2", 10), first("f2", opened, max_records=4), at=20)
    before = group.window()
    assert [entry[:5] for entry in before] == [[0, 3, "ACQUIRED", 2, "m1"]]
    group.send(first("f2", opened, max_records=4), at=30)
    assert [entry for entry in group.window() if entry[0] == 0] == before
