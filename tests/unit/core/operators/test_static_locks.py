"""Locks that outlast a restart of their static member (`share.static.record.lock.duration.ms`)."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sharegroup.types import AcknowledgeType

from .shard_driver import (
    LOCK_MS,
    ShardDriver,
    acknowledge,
    answered,
    config,
    fetch,
    known,
    load,
    log,
    release,
    tick,
)

STATIC_MS = 300_000


def shard(**values: object) -> ShardDriver:
    made = ShardDriver()
    made.batch(config(**values), load(0, (0, 100)), at=0)
    return made


def test_static_members_locks_are_longer() -> None:
    group = shard()
    of_static = dataclasses.replace(fetch("f1", max_records=2), is_static=True)
    responses = group.send(of_static, fetch("f2", max_records=2, member="m2"), at=0).responses
    assert responses == [
        answered("fetch", "f1", acquired=[[0, 1, 1]], until=STATIC_MS),
        answered("fetch", "f2", acquired=[[2, 3, 1]], until=LOCK_MS, member="m2"),
    ]
    group.batch(tick(STATIC_MS), at=STATIC_MS)
    assert group.window() == [
        [0, 1, "ACQUIRED", 1, "m1", STATIC_MS],
        [2, 3, "AVAILABLE", 1, None, None],
    ]
    group.batch(tick(STATIC_MS + 1), at=STATIC_MS + 1)
    assert group.window() == [[0, 3, "AVAILABLE", 1, None, None]]


def test_static_members_renewed_locks_are_longer() -> None:
    group = shard()
    group.send(fetch("f1", max_records=4), at=0)
    renewal = acknowledge("a1", (0, 1, AcknowledgeType.RENEW))
    told = group.send(dataclasses.replace(renewal, is_static=True), at=10_000).responses
    assert told == [answered("acknowledge", "a1", acquired=[[0, 1, 1]], until=10_000 + STATIC_MS)]
    assert [entry[5] for entry in group.window()] == [10_000 + STATIC_MS, LOCK_MS]


def test_waiting_fetch_of_a_static_member_survives_a_restart() -> None:
    group = ShardDriver()
    group.batch(config(), load(0, (0, 0)), at=0)
    waiting = dataclasses.replace(fetch("f1", max_records=1, max_wait_ms=9_000), is_static=True)
    assert group.send(waiting, at=0).responses == []
    assert group.batch(log(5), at=1_000).responses == [
        answered("fetch", "f1", acquired=[[0, 0, 1]], until=1_000 + STATIC_MS)
    ]


def test_waiting_fetch_without_the_static_field_is_dynamic() -> None:
    group = ShardDriver()
    group.batch(config(), load(0, (0, 0)), at=0)
    group.send(fetch("f1", max_records=1, max_wait_ms=9_000), at=0)
    state = known(group)
    state["demands"] = {p: [demand[:6] for demand in demands] for p, demands in state["demands"].items()}
    group.state = "\n".join([json.dumps(state), *(group.state or "").split("\n")[1:]])
    (response,) = group.batch(log(5), at=1_000).responses
    assert response["lock_deadline_ms"] == answered("fetch", "f1", until=1_000 + LOCK_MS)["lock_deadline_ms"]


def test_its_locks_end_when_it_has_left() -> None:
    group = shard()
    group.send(dataclasses.replace(fetch("f1", max_records=2), is_static=True), at=0)
    group.send(release("r1", epoch=3), at=50_000)
    assert group.window() == [[0, 1, "AVAILABLE", 1, None, None]]


@pytest.mark.parametrize(("static_ms", "expected_ms"), [(15_000, LOCK_MS), (1_800_000, 1_800_000)])
def test_the_group_says_how_long_and_never_less_than_for_others(static_ms: int, expected_ms: int) -> None:
    group = shard(static_record_lock_duration_ms=static_ms)
    group.send(dataclasses.replace(fetch("f1", max_records=1), is_static=True), at=0)
    assert group.window()[0][5] == expected_ms
