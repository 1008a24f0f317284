"""Rows of one share-partition in two partitions of the request topic, after it has grown or by another partitioner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.errors import ErrorCode
from sharegroup.types import Cause

from .shard_driver import LOCK_MS, ShardDriver, acknowledge, fetch, known, load, release, tick


def in_partition(line: str, kafka_partition: int) -> str:
    kind, _, rest = line.split("\t", 2)
    return f"{kind}\t{kafka_partition}\t{rest}"


def errors(output: Output) -> dict[str, int]:
    return {response["id"]: response["error_code"] for response in output.responses}


@pytest.fixture
def shard() -> ShardDriver:
    """Return a shard where member m holds record 0 until LOCK_MS, by rows of partition 0."""
    shard = ShardDriver()
    shard.batch(load(log=(0, 1)), at=0)
    shard.batch(shard.line(fetch("f1", member="m"), 0), at=0)
    return shard


@pytest.mark.parametrize("other", [0, 5])
def test_an_acknowledgement_in_time_counts_in_whichever_partition_it_is(shard: ShardDriver, other: int) -> None:
    in_time = shard.line(acknowledge("a1", (0, 0, 1), member="m"), LOCK_MS - 1_000)
    later = shard.line(fetch("f2", member="n"), LOCK_MS + 1_000)
    output = shard.batch(in_partition(in_time, 5 - other), in_partition(later, other), at=LOCK_MS + 2_000)
    assert errors(output) == {"a1": ErrorCode.NONE}


@pytest.mark.parametrize("other", [0, 5])
def test_an_acknowledgement_in_time_counts_when_it_is_read_later(shard: ShardDriver, other: int) -> None:
    in_time = shard.line(acknowledge("a1", (0, 0, 1), member="m"), LOCK_MS - 1_000)
    later = shard.line(fetch("f2", member="n"), LOCK_MS + 1_000)
    first = shard.batch(in_partition(later, 5 - other), at=LOCK_MS + 2_000)
    assert first.responses == []
    assert errors(shard.batch(in_partition(in_time, other), at=LOCK_MS + 3_000)) == {"a1": ErrorCode.NONE}


def test_late_acknowledgement_is_rejected_before_the_tick(shard: ShardDriver) -> None:
    late = shard.line(acknowledge("a1", (0, 0, 1), member="m"), LOCK_MS + 1_000)
    assert errors(shard.batch(in_partition(late, 5), at=LOCK_MS + 2_000)) == {"a1": ErrorCode.INVALID_RECORD_STATE}


def test_a_tick_ends_the_locks(shard: ShardDriver) -> None:
    later = shard.line(fetch("f2", member="n"), LOCK_MS + 1_000)
    shard.batch(in_partition(later, 5), at=LOCK_MS + 2_000)
    output = shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 3_000)
    assert [row["cause"] for row in output.tables["delivery_log"]] == [Cause.LOCK_TIMEOUT, Cause.FETCH]
    assert [response["acquired"] for response in output.responses] == [[[0, 0, 2]]]


def test_a_release_that_is_read_late_keeps_what_the_member_has_acquired_since() -> None:
    shard = ShardDriver()
    shard.batch(load(log=(0, 1)), at=0)
    left = shard.line(release("r1", member="m", epoch=5), 1)
    shard.batch(in_partition(shard.line(fetch("f1", member="m", epoch=7), 2), 5), at=3)
    late = shard.batch(left, at=4)
    assert (late.tables, errors(late)) == ({}, {"r1": ErrorCode.NONE})
    assert shard.window() == [[0, 0, "ACQUIRED", 1, "m", 3 + LOCK_MS]]
    shard.send(release("r2", member="m", epoch=7), at=5)
    assert shard.window() == [[0, 0, "AVAILABLE", 1, None, None]]
    assert known(shard)["requesters"] == {}


def test_end_of_an_earlier_session_that_is_read_late_keeps_what_the_next_one_acquired() -> None:
    shard = ShardDriver()
    shard.batch(load(log=(0, 1)), at=0)
    ended = shard.line(replace(release("r1", member="m"), requester="me", delivered=()), 1)
    shard.batch(in_partition(shard.line(fetch("f1", member="m"), 2), 5), at=3)
    assert shard.batch(ended, at=4).tables == {}
    assert shard.window() == [[0, 0, "ACQUIRED", 1, "m", 3 + LOCK_MS]]
    shard.send(replace(release("r2", member="m"), requester="me", delivered=()), at=5)
    assert shard.window() == [[0, 0, "AVAILABLE", 0, None, None]]
