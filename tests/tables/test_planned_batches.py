"""The rows of each batch of the source: loads, unloads, deletions, configs, logs and ticks, none of them twice."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.logs.topic_identities import POLL_MS
from sharegroup.types import RecordState, SharePartitionKey, StateBatch
from tests.tables.source_world import BILLS, COMMITTED, CONFIG, OLD, SHARD, World, loads, row, state

P0, P1, P2 = (OLD._replace(partition=partition) for partition in range(3))
HEADER = ShareGroupOffsetHeader(3, 1, 7, 8, 0, 2, 1_000, 7)
STATE = ShareGroupOffset(HEADER, (StateBatch(8, 9, RecordState.ACQUIRED, 1, "m1", 31_000),))
LOG = [0, 100, None, True]


def loaded(partition: int, **values: Any) -> dict[str, Any]:
    more = {"header": None, "initializing": False, "log": LOG, "start_offset": 100, "batches": []}
    return {"topic": "orders", "partition": partition, "state_epoch": 1} | more | values


WITH_STATE = {"start_offset": 8, "header": list(HEADER), "batches": [[8, 9, 1, 1, "m1", 31_000]]}


def partitions(rows: list[tuple[str, str, Any]]) -> dict[str, list[int]]:
    """Return the partitions that each shard loads."""
    return {key: [load["partition"] for load in body] for key, kind, body in rows if kind == "load"}


# -- loads -------------------------------------------------------------------------------------------------------------


def test_the_first_batch_loads_everything_with_its_config() -> None:
    world = World(row(P1, new=True), row(P0), states={P0: STATE})
    assert world.read() == [
        (SHARD, "config", CONFIG),
        (SHARD, "load", [loaded(0, **WITH_STATE), loaded(1, initializing=True)]),
    ]
    assert world.read_for(2_000) == []


def test_share_partitions_are_dealt_out_to_the_shards() -> None:
    world = World(row(P0), row(P1), row(P2), shards=2)
    assert partitions(world.read()) == {"g\told\t0": [0, 2], "g\told\t1": [1]}


@pytest.mark.parametrize(("told", "start_offset"), [(12, 12), (0, 5)])
def test_a_share_partition_does_not_start_below_its_log(told: int, start_offset: int) -> None:
    world = World(row(P0, start_offset=told, new=True))
    world.topics["orders"] = ("old", (5, 100, 90))
    assert [load["start_offset"] for load in loads(world.read())] == [start_offset]


def test_a_given_start_offset_needs_no_log_offsets() -> None:
    world = World(row(P0, start_offset=12, new=True))
    world.is_away = True
    assert loads(world.read()) == [loaded(0, start_offset=12, log=None, initializing=True)]


@pytest.mark.parametrize(
    ("reset", "start_offset"), [("earliest", 5), ("latest", 100), ("by_duration:PT1H", 42), (None, 100)]
)
def test_where_a_share_partition_without_state_starts(reset: str | None, start_offset: int) -> None:
    """It starts by the config at its creation, or by the group's present config if its row has none."""
    world = World(row(P0, reset=reset, new=True))
    world.topics["orders"] = ("old", (5, 100, 90))
    world.of_group = CONFIG | {"auto_offset_reset": "latest"}
    assert [load["start_offset"] for load in loads(world.read())] == [start_offset]


def test_a_share_partition_that_was_never_seen_is_loaded_beside_the_others() -> None:
    world = World(row(P0))
    world.read()
    world.list(row(P0), row(P1, new=True))
    assert world.read() == [(SHARD, "config", CONFIG), (SHARD, "load", [loaded(1, initializing=True)])]


def test_a_reset_loads_the_higher_state_epoch_over_the_old_state() -> None:
    world = World(row(P0), states={P0: STATE})
    world.read()
    world.list(row(P0, state_epoch=2, start_offset=12, new=True))
    load = loaded(0, state_epoch=2, start_offset=12, initializing=True, header=list(HEADER))
    assert world.read() == [(SHARD, "config", CONFIG), (SHARD, "load", [load])]
    world.list(row(P0, state_epoch=2, start_offset=12))
    assert world.read_for(2_000) == []


def test_a_reset_without_a_start_offset_is_unloaded_until_it_has_one() -> None:
    world = World(row(P0, start_offset=3))
    world.is_away = True
    world.read()
    world.list(row(P0, state_epoch=2, new=True, reset="earliest"))
    assert world.read() == [(SHARD, "unload", [0])]
    world.is_away = False
    assert loads(world.read_for(11_000)) == [loaded(0, state_epoch=2, start_offset=0, initializing=True)]


def test_an_unlisted_share_partition_is_unloaded() -> None:
    world = World(row(P0), row(P1))
    world.read()
    world.list(row(P0))
    assert world.read() == [(SHARD, "unload", [1])]
    assert world.read_for(2_000) == []


# -- deletions ---------------------------------------------------------------------------------------------------------


def test_a_deletion_is_sent_once_and_no_longer_managed() -> None:
    world = World(row(P0), row(P1))
    world.read()
    world.list(row(P0, deleting=True), row(P1))
    assert world.read() == [(SHARD, "delete", [[0, 1, "orders"]])]
    world.start()
    assert [kind for _, kind, _ in world.read_for(2_000)] == ["config", "log"]
    world.list(row(P1))
    assert world.read() == []
    world.offset = type(world.offset)()
    world.versions.pop()
    from_nothing = world.read()
    assert [body for _, kind, body in from_nothing if kind == "delete"] == [[[0, 1, "orders"]]]
    assert partitions(from_nothing) == {SHARD: [1]}


@pytest.mark.parametrize("deletion_was_seen", [True, False])
def test_a_share_partition_recreated_during_its_deletion_is_loaded(deletion_was_seen: bool) -> None:
    world = World(row(P0), states={P0: STATE})
    world.read()
    if deletion_was_seen:
        world.list(row(P0, deleting=True))
        world.read()
    world.list(row(P0, state_epoch=4, new=True, reset="earliest"))
    load = loaded(0, state_epoch=4, start_offset=0, initializing=True, header=list(HEADER))
    assert loads(world.read()) == [load]


# -- configs and logs --------------------------------------------------------------------------------------------------


def test_a_changed_config_is_sent_to_the_shards_of_its_group() -> None:
    world = World(row(P0), row(P0._replace(group_id="h")))
    world.read()
    world.of_group = world.of_group_polled = COMMITTED
    found = world.read()
    assert [each for each in found if each[1] == "config"] == [(SHARD, "config", COMMITTED)]
    assert [each for each in found if each[1] == "log"] == [
        (SHARD, "log", [[0, 0, 100, 90, True]]),
        ("h\told\t0", "log", [[0, 0, 100, 90, True]]),
    ]


def test_only_logs_that_moved_are_sent() -> None:
    world = World(row(P0), row(P1), row(BILLS))
    world.topics["bills"] = ("bills-id", (0, 7, 7))
    world.read()
    world.topics["bills"] = ("bills-id", (0, 9, 9))
    assert world.read_for(5_000) == [("g\tbills-id\t0", "log", [[0, 0, 9, None, True]])]


def asked(world: World, **told: Any) -> set[str]:
    """Return the topics whose end offsets one poll requests."""
    world.asked.clear()
    world.read(**told)
    return {topic for topic, _ in world.asked}


def two_topics() -> World:
    world = World(row(OLD), row(BILLS))
    world.topics["bills"] = ("bills-id", (0, 7, 7))
    world.read()
    return world


def test_awaited_logs_are_polled_often_and_all_logs_sometimes() -> None:
    world = two_topics()
    assert asked(world) == set()
    assert asked(world, waiting={SHARD}) == {"orders"}
    assert asked(world, waiting={SHARD}, after_ms=100) == set()
    world.requested = {"bills-id", "nobody's"}
    assert asked(world) == {"bills"}
    world.requested = set()
    assert asked(world, after_ms=5_000) == {"orders", "bills"}


def test_a_new_share_partition_requests_only_its_own_log() -> None:
    world = two_topics()
    world.list(row(OLD), row(BILLS), row(BILLS._replace(group_id="h"), new=True))
    assert asked(world) == {"bills"}


def test_a_topic_without_readers_is_discarded() -> None:
    """A new reader requests everything again, and idle topics need no memory."""
    world = two_topics()
    world.list(row(OLD))
    assert world.read() == [("g\tbills-id\t0", "unload", [0])]
    assert asked(world, after_ms=5_000) == {"orders"}
    world.read_for(2 * POLL_MS)
    world.described.clear()
    world.read_for(2 * POLL_MS)
    assert {name for names in world.described for name in names} == {"orders"}
    known = vars(world._planner)
    assert not _mentions(known, "bills")
    assert _mentions(known, "orders")


def _mentions(found: object, name: str, depth: int = 12) -> bool:
    """Return whether any stored value contains a topic's name."""
    if isinstance(found, str):
        return found == name
    if isinstance(found, dict):
        return any(_mentions(each, name, depth - 1) for pair in found.items() for each in pair)
    if isinstance(found, (list, tuple, set, frozenset)):
        return any(_mentions(each, name, depth - 1) for each in found)
    if isinstance(found, World) or not hasattr(found, "__dict__") or not depth:
        return False
    return _mentions(vars(found), name, depth - 1)


# -- ticks and starts --------------------------------------------------------------------------------------------------


def test_ticks_come_when_their_deadline_is_over_by_the_safe_clock() -> None:
    world = World(row(P0))
    world.read(safe_ms=10)
    assert world.read(deadlines={SHARD: 90, "g2\tbills\t0": 80, "h": 95}, safe_ms=90) == [("g2\tbills\t0", "tick", 90)]
    assert world.read(deadlines={SHARD: 90}, safe_ms=91) == [(SHARD, "tick", 91)]
    assert world.read(deadlines={SHARD: 90}) == []


def test_ended_leases_of_gateways_are_sent_to_the_keys_with_their_reservations() -> None:
    world, other = World(row(P0)), "g2\tbills\t0"
    world.read(safe_ms=10)
    change = HandoverChange(reservers={SHARD: ["g1", "g2"], other: ["g1"]}, leases={"g1": 90_000, "g2": 95_000})
    assert world.read(safe_ms=90, change=change) == []
    assert world.read(safe_ms=90_001, change=change) == [(SHARD, "leases_over", ["g1"]), (other, "leases_over", ["g1"])]
    assert world.read(safe_ms=95_001, change=change)[1:] == [(SHARD, "leases_over", ["g1", "g2"])]


def test_every_key_is_ticked_once_after_a_start() -> None:
    world = World(row(P0), row(BILLS, start_offset=0))
    keys = ["g\tbills-id\t0", SHARD]
    assert [key for key, kind, _ in world.read(safe_ms=10) if kind == "tick"] == keys
    assert world.read(safe_ms=20) == []
    world.start()
    assert [each for each in world.read(safe_ms=5) if each[1] == "tick"] == [(key, "tick", 5) for key in keys]


def test_a_start_with_checkpoint_sends_configs_and_logs_and_loads_nothing() -> None:
    world = World(row(P0), row(P1), states={P0: state()})
    world.read()
    world.start()
    assert world.read() == [(SHARD, "config", CONFIG), (SHARD, "log", [[0, *LOG], [1, *LOG]])]
    assert world.read_for(2_000) == []


def test_a_start_keeps_waiting_share_partitions_waiting() -> None:
    world = World(row(P0, start_offset=3), row(P1, new=True, reset="latest"))
    world.is_away = True
    assert partitions(world.read()) == {SHARD: [0]}
    world.start()
    assert partitions(world.read_for(1_000)) == {}
    world.is_away = False
    assert partitions(world.read_for(11_000)) == {SHARD: [1]}


def test_a_poll_that_fails_half_way_sends_nothing() -> None:
    """The next poll gets the same results again."""
    world = World(row(P0))
    world.read()
    world.list(row(P0), row(P1, new=True))
    states, world.states = world.states, _fail  # type: ignore[method-assign]
    world.topics.clear()
    with pytest.raises(OSError, match="the store"):
        world.read()
    world.states = states  # type: ignore[method-assign]
    world.topics["orders"] = ("old", (0, 100, 90))
    assert partitions(world.read_for(11_000)) == {SHARD: [1]}


def _fail(version: int, keys: Any) -> Any:
    raise OSError("the store")


def test_a_large_batch_is_followed_by_an_empty_one() -> None:
    """Otherwise Spark would write all rows again with each batch that has only requests."""
    world = World(*(row(P0._replace(group_id=f"g{number}")) for number in range(200)))
    assert len(world.read()) == 400
    assert world.offset.is_large
    seq = world.offset.seq
    assert world.read() == []
    assert (world.offset.seq, world.offset.rows) == (seq + 1, ())
    world.read()
    assert world.offset.seq == seq + 1


def test_an_offset_contains_no_idle_share_partitions() -> None:
    keys = [SharePartitionKey(f"g{number}", "orders", "old", 0) for number in range(300)]
    world = World(*(row(key) for key in keys))
    world.read()
    world.read()
    world.list(*(row(key) for key in keys), row(P1, new=True))
    assert len(world.read()) == 2
    assert len(str(world.offset.to_json())) < 1_200
