"""The config of a shard's share-partitions: from the source, and by `configure` requests in their own order."""

from __future__ import annotations

from typing import Any

import pytest

from .shard_driver import (
    LOCK_MS,
    ShardDriver,
    acknowledge,
    answered,
    config,
    configure,
    fetch,
    known,
    load,
    log,
    tick,
    unload,
)

SHORT, LONG = {"record_lock_duration_ms": 15_000}, {"record_lock_duration_ms": 60_000}
COMMITTED = {"isolation_level": "read_committed"}


def lock_ms(shard: ShardDriver, at: int, partition: int = 0) -> int:
    """Return the current lock duration."""
    (response,) = shard.send(fetch(f"f{at}", max_records=1, max_wait_ms=0, partition=partition), at=at).responses
    deadline: int = shard.window(partition)[-1][5]
    assert response["acquired"]
    return deadline - at


def two() -> ShardDriver:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 100)), load(0, (0, 100), partition=1), at=0)
    return shard


def test_config_change_applies_to_its_whole_batch() -> None:
    shard = two()
    ask = shard.line(fetch("f1", max_records=1), 5)
    change = shard.line(configure(**LONG), 5)
    assert shard.batch(ask, change, at=5).responses == [answered("fetch", "f1", acquired=[[0, 0, 1]], until=60_005)]
    assert lock_ms(shard, 6) == 60_000


def test_the_last_of_several_changes_counts() -> None:
    shard = two()
    shard.batch(*[shard.line(configure(**values), 5) for values in (LONG, {}, SHORT)], at=5)
    assert lock_ms(shard, 6) == 15_000


def test_each_share_partition_has_the_change_that_came_to_it() -> None:
    shard = two()
    shard.send(configure(0, **SHORT), configure(0, **LONG), at=5)
    assert (lock_ms(shard, 6), lock_ms(shard, 7, 1)) == (60_000, LOCK_MS)
    shard.send(configure(1, **SHORT), at=8)  # an earlier change arrives later
    assert (lock_ms(shard, 9), lock_ms(shard, 10, 1)) == (60_000, 15_000)
    shard.send(configure(1, **LONG), at=11)
    assert (lock_ms(shard, 12), lock_ms(shard, 13, 1)) == (60_000, 60_000)


@pytest.mark.parametrize("lines", [(), (config(**LONG),)])
def test_a_change_that_comes_after_a_later_one_is_passed_over(lines: tuple[str, ...]) -> None:
    """A leader was paused before it sent the change; its successor has sent a later one, possibly twice."""
    shard = two()
    shard.send(configure(0, altered=20, **LONG), at=30)
    shard.batch(*lines, at=35)
    shard.send(configure(0, altered=10, **SHORT), configure(1, altered=10, **SHORT), at=40)
    assert (lock_ms(shard, 41), lock_ms(shard, 42, 1)) == (60_000, 15_000)
    shard.send(configure(0, altered=20, **SHORT), at=43)  # altered at the same time
    assert lock_ms(shard, 44) == 15_000


def test_shard_without_state_ignores_changes_older_than_the_table() -> None:
    """The loaded config has the time of its newest change, so an older one of a paused leader is ignored."""
    shard = ShardDriver()
    shard.batch(config(altered=20, **LONG), load(0, (0, 100)), at=30)
    shard.send(configure(0, altered=10, **SHORT), at=40)
    assert lock_ms(shard, 41) == 60_000
    shard.send(configure(0, altered=21, **SHORT), at=50)
    assert lock_ms(shard, 51) == 15_000


def test_config_of_the_source_replaces_earlier_changes() -> None:
    shard = two()
    shard.send(configure(0, **SHORT), at=5)
    shard.batch(config(**LONG), at=6)
    assert (lock_ms(shard, 7), lock_ms(shard, 8, 1)) == (60_000, 60_000)


def test_change_in_the_same_batch_replaces_the_config_of_the_source() -> None:
    shard = two()
    shard.batch(config(**LONG), shard.line(configure(0, **SHORT), 5), at=5)
    assert (lock_ms(shard, 6), lock_ms(shard, 7, 1)) == (15_000, 60_000)


def test_a_change_before_the_load_is_kept_where_anything_is() -> None:
    shard = two()
    shard.send(configure(5, **LONG), at=5)
    shard.batch(load(0, (0, 100), partition=5), at=6)
    assert lock_ms(shard, 7, 5) == 60_000
    shard.batch(unload(5), at=8)
    assert list(known(shard)["configs"]) == [""]


def test_a_change_where_nothing_is_kept_is_nothing_to_keep() -> None:
    shard = ShardDriver()
    output = shard.send(configure(**LONG), at=5)
    assert (output.responses, output.rejected, shard.state) == ([], [], None)


def test_config_change_ends_no_lock() -> None:
    shard = two()
    shard.send(fetch("f1", max_records=1), at=0)
    shard.send(configure(**LONG), at=5)
    assert shard.window() == [[0, 0, "ACQUIRED", 1, "m1", LOCK_MS]]
    shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 1)
    assert shard.window() == [[0, 0, "AVAILABLE", 1, None, None]]


@pytest.mark.parametrize(
    "values",
    [
        {"record_lock_duration_ms": "long"},
        {"record_lock_duration_ms": -1},
        {"delivery_count_limit": None},
        {"delivery_count_limit": True},
        {"renew_acknowledge_enable": 1},
        {"auto_offset_reset": 5},
        {"auto_offset_reset": "middle"},
        {"isolation_level": "none"},
        {"isolation_level": [1]},
    ],
)
def test_invalid_config_changes_nothing(values: dict[str, object]) -> None:
    shard = two()
    output = shard.send(configure(**values), at=5)
    assert [(partition, offset) for partition, offset, _ in output.rejected] == [(0, 0)]
    assert lock_ms(shard, 6) == LOCK_MS


def test_a_fetch_response_has_the_delivery_limit_of_redelivered_records() -> None:
    shard = ShardDriver()
    shard.batch(config(delivery_count_limit=3), load(0, (0, 5)), at=0)
    (first,) = shard.send(fetch("f0", max_wait_ms=0), at=1).responses
    assert (first["acquired"], "delivery_count_limit" in first) == ([[0, 4, 1]], False)
    shard.send(acknowledge("a1", (0, 4, 2)), at=2)
    (second,) = shard.send(fetch("f1", max_wait_ms=0), at=3).responses
    assert (second["acquired"][0][2], second["delivery_count_limit"]) == (2, 3)


# -- isolation ---------------------------------------------------------------------------------------------------------


def acquired(shard: ShardDriver, at: int) -> list[Any]:
    (response,) = shard.send(fetch(f"f{at}", max_records=100, max_wait_ms=0), at=at).responses
    return [response["acquired"], response.get("read_committed", False)]


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    shard = ShardDriver()
    shard.batch(config(**COMMITTED), load(0, (0, 20, 5)), at=0)
    assert acquired(shard, 1) == [[[0, 4, 1]], True]
    shard.batch(log(20, stable=8), at=2)
    assert acquired(shard, 3) == [[[5, 7, 1]], True]


@pytest.mark.parametrize("first", [{}, COMMITTED])
def test_read_committed_needs_the_last_stable_offset(first: dict[str, str]) -> None:
    shard = ShardDriver()
    shard.batch(config(**first), load(0, (0, 20)), at=0)
    shard.send(configure(**COMMITTED), at=1)
    assert acquired(shard, 2) == [[], True]
    shard.batch(log(20, stable=8), at=3)
    assert acquired(shard, 4) == [[[0, 7, 1]], True]


def test_records_are_redelivered_even_above_the_last_stable_offset() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f0"), 0), at=0)
    shard.send(configure(**COMMITTED), acknowledge("a1", (3, 4, 2)), at=1)
    shard.batch(log(20), at=2)
    assert acquired(shard, 3) == [[[3, 4, 2]], True]


def test_a_group_of_all_records_gets_them_from_the_moment_on() -> None:
    shard = ShardDriver()
    shard.batch(config(**COMMITTED), load(0, (0, 20, 5)), at=0)
    shard.send(configure(), at=1)
    assert acquired(shard, 2) == [[[0, 19, 1]], False]
