"""The source's decisions, with tables, brokers and configs in memory and time as an argument: managed share-partitions,
their configs, the offsets of their logs, and deleted topics."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.job.knowledge.source_state import waiting_key
from sharegroup.job.logs.topic_identities import CONFIRM_MS, POLL_MS
from sharegroup.storage.reading.fences import Fence
from sharegroup.types import RecordState, StateBatch
from tests.tables.source_world import (
    BILLS,
    COMMITTED,
    CONFIG,
    EARLIEST,
    GRACE_MS,
    NEW,
    OLD,
    SHARD,
    World,
    loads,
    row,
    state,
)
from tests.unit.core.operators.shard_driver import LOCK_MS, T0, TOPIC_ID, ShardDriver, acknowledge, answered, fetch

# -- managed share-partitions ------------------------------------------------------------------------------------------


def test_a_share_partition_with_a_state_is_loaded_without_kafka() -> None:
    """The acknowledgements in the first batch must find it; its log offsets are sent when they are known."""
    initialized, caught_up, fresh = OLD, OLD._replace(partition=1), OLD._replace(partition=2)
    world = World(
        row(initialized),
        row(caught_up, new=True),
        row(fresh, new=True),
        states={initialized: state(), caught_up: state(5)},
    )
    world.is_away = True
    first = world.read()
    assert [(load["partition"], load["log"], load["start_offset"]) for load in loads(first)] == [
        (0, None, 3),
        (1, None, 5),
    ]
    assert world.offset.waiting == (waiting_key(row(fresh)),)
    world.is_away = False
    later = world.read_for(2_000)
    told = [[partition, 0, 100, None, True] for partition in (0, 1)]
    assert [(kind, body) for _, kind, body in later if kind == "log"] == [("log", told)]
    assert [load["partition"] for load in loads(later)] == [2]


def test_loaded_shards_receive_the_fences_of_replaced_processes() -> None:
    world = World(row(OLD), row(BILLS))
    world.topics["bills"] = ("bills-id", (0, 100, 90))
    world.fenced = {"g": [Fence("m1", "p2", 7)], "other": [Fence("m1", "p3", 8)]}
    shards = ["g\tbills-id\t0", SHARD]
    assert [(key, body) for key, kind, body in world.read() if kind == "fences"] == [
        (shard, [["m1", "p2", 7]]) for shard in shards
    ]
    world.list(row(OLD), row(BILLS), row(OLD._replace(partition=1), new=True))
    assert [kind for _, kind, _ in world.read_for(2_000) if kind in ("load", "fences")] == ["load"]


def test_a_new_share_partition_waits_for_its_log_and_is_not_read_for_again() -> None:
    world = World(row(OLD, new=True, reset="latest"))
    world.is_away = True
    assert loads(world.read()) == []
    read = []
    world.states = lambda version, keys: read.append(keys) or {}  # type: ignore[method-assign,func-returns-value]
    assert world.read_for(2_000) == []
    assert read == []
    world.is_away = False
    (load,) = loads(world.read_for(10_000))
    assert (load["start_offset"], load["log"]) == (100, [0, 100, None, True])


def test_a_share_partition_starts_by_the_config_of_when_it_was_made() -> None:
    """The polled configs may be slightly old, so the row decides."""
    world = World()
    world.read()
    assert world.of_group_polled == CONFIG
    world.list(row(OLD, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert load["start_offset"] == 0


def test_a_share_partition_starts_at_its_logs_start_as_it_is_now() -> None:
    """Another group reads the topic already, so its log is known; retention has moved the start since."""
    world = World(row(OLD, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert load["start_offset"] == 0
    world.topics["orders"] = ("old", (50, 120, 120))
    other = OLD._replace(group_id="h")
    world.list(row(OLD, new=True, reset="earliest"), row(other, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert (load["start_offset"], load["log"]) == (50, [50, 120, None, True])


@pytest.mark.parametrize(("reset", "start_offset"), [("earliest", 50), ("latest", 120), ("by_duration:PT1H", 42)])
def test_offsets_of_a_log_without_leader_are_no_start_offsets(reset: str, start_offset: int) -> None:
    """The operator gets it for share-partitions with a state; one without a state waits for the leader."""
    world = World(row(OLD, new=True, reset="earliest"))
    world.read()
    world.topics["orders"], world.is_away = ("old", (50, 120, 120)), True
    other, third = OLD._replace(group_id="h"), OLD._replace(group_id="i")
    world.saved[third] = state()
    world.list(*(row(key, new=True, reset=reset) for key in (OLD, other, third)))
    assert [load["log"] for load in loads(world.read())] == [[0, 100, None, True]]
    assert loads(world.read()) == []
    world.is_away = False
    found = [load for _ in range(20) for load in loads(world.read(after_ms=1_000))]
    assert [(load["start_offset"], load["log"]) for load in found] == [(start_offset, [50, 120, None, True])]


def test_a_config_that_is_sent_with_a_load_is_the_newest() -> None:
    world = World()
    world.read()
    world.of_group = COMMITTED
    assert world.read() == []
    world.list(row(OLD, new=True, reset="latest"))
    found = world.read()
    assert [(kind, body) for _, kind, body in found if kind == "config"] == [("config", COMMITTED)]


def test_a_changed_config_is_read_again_before_it_is_sent() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.read()
    world.of_group_polled, world.of_group = EARLIEST, COMMITTED  # the poll of half a second ago, and the present values
    assert [body for _, kind, body in world.read() if kind == "config"] == [COMMITTED]


def test_a_start_by_time_is_looked_up_only_without_a_state() -> None:
    other = OLD._replace(partition=1)
    by_time = "by_duration:PT1H"
    world = World(row(OLD, reset=by_time), row(other, new=True, reset=by_time), states={OLD: state()})
    assert [(load["partition"], load["start_offset"]) for load in loads(world.read())] == [(0, 3), (1, 42)]


def test_the_last_stable_offset_is_requested_for_read_committed_groups() -> None:
    world = World(
        row(OLD), row(BILLS._replace(group_id="h")), states={OLD: state(), BILLS._replace(group_id="h"): state()}
    )
    world.topics["bills"] = ("bills-id", (0, 5, 5))
    world.of_group = COMMITTED
    world.read()
    assert world.logs() == {"g\told\t0": [0, 100, 90, True], "h\tbills-id\t0": [0, 5, None, True]}


# -- missing states ----------------------------------------------------------------------------------------------------

OTHER_GROUP = OLD._replace(group_id="h")


def a_world_without_a_state() -> World:
    world = World(row(OLD), row(OLD._replace(partition=1)), row(OTHER_GROUP))
    world.lost.add(OLD)
    return world


def loaded_groups(found: list[tuple[str, str, Any]]) -> list[str]:
    return [key.partition("\t")[0] for key, kind, _ in found if kind == "load"]


def test_an_initialized_share_partition_without_state_stops_its_group(caplog: pytest.LogCaptureFixture) -> None:
    world = a_world_without_a_state()
    assert loaded_groups(world.read()) == ["h"]
    assert loaded_groups(world.read_for(11_000)) == []
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert logged.startswith("group g is stopped: share-partition orders-0 is initialized in share_partitions (state e")


def test_a_restart_does_not_start_a_stopped_group() -> None:
    world = a_world_without_a_state()
    world.read()
    world.start()
    assert loaded_groups(world.read_for(11_000)) == []
    world.lost.clear()
    world.start()
    assert [load["partition"] for load in loads(world.read())] == [0, 1]


def test_a_state_of_an_earlier_epoch_stops_the_group() -> None:
    world = World(row(OLD, state_epoch=2), states={OLD: state(epoch=1)})
    assert loads(world.read()) == []


def test_altered_offsets_start_a_stopped_group_again() -> None:
    world = a_world_without_a_state()
    world.read()
    altered = row(OLD, new=True, state_epoch=2, start_offset=40)
    world.list(altered, row(OLD._replace(partition=1)), row(OTHER_GROUP))
    assert [(load["partition"], load["start_offset"]) for load in loads(world.read())] == [(0, 40), (1, 3)]


def test_a_group_is_unloaded_when_a_state_turns_out_to_be_missing() -> None:
    world = World(row(OLD))
    world.read()
    world.lost.add(OLD._replace(partition=1))
    world.list(row(OLD), row(OLD._replace(partition=1)))
    assert world.read() == [(SHARD, "unload", [0])]


# -- deleted topics ----------------------------------------------------------------------------------------------------


def led() -> World:
    world = World(row(OLD), states={OLD: state()})
    world.read()
    world.read_for(POLL_MS)
    return world


def gone(world: World, within_ms: int) -> int | None:
    """Return the time after which the topic counts as deleted."""
    for at in range(200, within_ms + 1, 200):
        if (SHARD, "gone", "orders") in world.read():
            return at
    return None


@pytest.mark.parametrize("end", [50, 100, 500])
def test_a_recreated_topic_is_detected_and_its_log_is_not_the_old_ones(end: int) -> None:
    world = led()
    world.described.clear()
    while not world.described:
        assert world.read() == []
    world.topics["orders"] = ("new", (0, end, end))
    assert world.read(waiting=frozenset({SHARD})) == []  # the name is looked up before a changed end offset is accepted
    assert len(world.described) == 1 + (end != 100)
    assert gone(world, 2 * POLL_MS + CONFIRM_MS) is not None
    assert world.logs() == {SHARD: [0, 100, None, True]}
    assert world.offset.gone == ("old",)
    assert world.read_for(10_000) == []


def test_an_end_offset_is_ignored_while_the_name_look_up_fails() -> None:
    world = led()
    world.topics["orders"] = ("old", (0, 500, 500))
    world.tells_nothing = True
    assert world.read(waiting=frozenset({SHARD})) == []
    world.tells_nothing = False
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 500, None, True]])]


def test_a_recreated_topic_is_loaded_and_the_old_one_removed_with_its_row() -> None:
    world = led()
    world.topics["orders"] = ("new", (0, 50, 50))
    assert gone(world, 10_000) is not None
    world.list(row(OLD, deleting=True), row(NEW, new=True, reset="earliest"))
    found = world.read()
    assert [(key, kind) for key, kind, _ in found] == [
        (SHARD, "delete"),
        ("g\tnew\t0", "config"),
        ("g\tnew\t0", "load"),
    ]
    assert loads(found)[0]["log"] == [0, 50, None, True]
    assert world.offset.gone == ()


def test_a_topic_is_deleted_after_its_absence_for_the_grace_time() -> None:
    world = led()
    world.topics["orders"] = None
    after = gone(world, GRACE_MS + 2 * POLL_MS)
    assert after is not None
    assert GRACE_MS <= after <= GRACE_MS + 2 * POLL_MS


def test_nothing_is_concluded_from_silence() -> None:
    world = led()
    world.is_away = True
    assert gone(world, 4 * GRACE_MS) is None
    world.is_away, world.topics["orders"] = False, None
    assert gone(world, GRACE_MS - 200) is None


def test_a_topic_that_returns_in_time_is_not_deleted() -> None:
    world = led()
    topic, world.topics["orders"] = world.topics["orders"], None
    assert gone(world, GRACE_MS - 2 * POLL_MS) is None
    world.topics["orders"] = topic
    assert gone(world, POLL_MS) is None
    world.topics["orders"] = None
    assert gone(world, GRACE_MS - 2 * POLL_MS) is None


def test_another_id_for_a_name_never_seen_may_be_outdated_metadata() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("older", (0, 7, 7))
    assert gone(world, GRACE_MS - POLL_MS) is None
    assert world.logs() == {SHARD: None}
    world.topics["orders"] = ("old", (0, 100, 90))
    assert gone(world, 2 * GRACE_MS) is None
    assert world.logs() == {SHARD: [0, 100, None, True]}


def test_a_topic_recreated_during_downtime_is_gone_after_the_grace_time() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("new", (0, 7, 7))
    assert gone(world, GRACE_MS + 2 * POLL_MS) is not None


def test_an_outdated_response_does_not_remove_the_new_topic() -> None:
    world = led()
    world.topics["orders"] = ("new", (0, 50, 50))
    assert gone(world, 10_000) is not None
    world.list(row(NEW, new=True, reset="earliest"))
    world.read()
    world.topics["orders"] = ("old", (0, 100, 90))
    found = world.read_for(GRACE_MS - POLL_MS)
    assert [kind for _, kind, _ in found if kind == "gone"] == []


def test_a_single_other_response_is_neither_accepted_nor_ignored_forever() -> None:
    world = led()
    world.topics["orders"] = ("new", (0, 100, 90))
    world.described.clear()
    while not world.described:
        assert world.read(100) == []
    world.topics["orders"] = ("old", (0, 100, 90))
    assert gone(world, 2 * GRACE_MS) is None
    world.topics["orders"] = ("new", (0, 100, 90))
    after = gone(world, GRACE_MS + 3 * POLL_MS)
    assert after is not None
    assert after >= GRACE_MS


def test_without_topic_ids_a_falling_log_is_sent_as_such() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (0, 100, 90))
    assert [load["log"] for load in loads(world.read())] == [[0, 100, None, False]]
    world.topics["orders"] = ("", (0, 50, 50))
    found = world.read_for(GRACE_MS)
    assert found == [(SHARD, "log", [[0, 0, 50, None, False]])]
    world.topics["orders"] = None
    assert gone(world, 2 * GRACE_MS) is not None


def test_a_log_whose_end_falls_is_sent_with_its_own_start() -> None:
    """Otherwise a new topic would be read from the start of the previous log, beyond its end."""
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (29, 29, 29))
    world.read()
    world.topics["orders"] = ("", (0, 15, 15))
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 15, None, False]])]


def test_a_log_without_a_topic_id_is_sent_as_such_after_a_missing_topic() -> None:
    """Its leader is queried before the name is looked up again: its log would be taken for one with an id."""
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (0, 1_000, 1_000))
    world.read_for(POLL_MS)
    looks = len(world.described)
    world.topics["orders"] = None
    world.read()
    assert len(world.described) == looks + 1
    world.topics["orders"] = ("", (0, 50, 50))
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 50, None, False]])]


@pytest.mark.parametrize("name", ["bad name", "", ".."])
def test_an_invalid_topic_name_is_not_looked_up(name: str) -> None:
    world = World(row(OLD._replace(topic=name)))
    world.read_for(2 * GRACE_MS)
    assert [looked_up for looked_up in world.described if looked_up] == []
    assert world.offset.gone == ()


# -- with the operator -------------------------------------------------------------------------------------------------


def test_a_start_without_checkpoint_or_leader_loses_no_acknowledgement() -> None:
    """The request was appended twelve seconds before the first batch, and the gateway has responded with success."""
    held = StateBatch(3, 9, RecordState.ACQUIRED, 1, "m1", T0 + 30_000)
    key = OLD._replace(topic_id=TOPIC_ID)
    world = World(row(key), states={key: state()._replace(state_batches=(held,))})
    world.is_away = True
    world.read()
    lines = [text for _, text in world.rows]
    shard = ShardDriver()
    output = shard.batch(*lines, shard.line(acknowledge("a1", (3, 9, 1), grants=[(3, 9, 1)]), 0), at=12_000)
    assert output.responses == [answered("acknowledge", "a1")]
    assert shard.led().window.start_offset == 10


def test_a_recreated_topic_is_read_from_its_start_under_its_new_id() -> None:
    """The old start offset is 1,000; the new log has 50 records."""
    world = World(row(OLD), states={OLD: state(1_000)})
    world.topics["orders"] = ("old", (0, 1_000, 1_000))
    world.read_for(POLL_MS)
    world.topics["orders"] = ("new", (0, 50, 50))
    assert gone(world, 10_000) is not None
    new = NEW._replace(topic_id=TOPIC_ID)
    world.topics["orders"] = (TOPIC_ID, (0, 50, 50))
    world.list(row(OLD, deleting=True), row(new, new=True, reset="earliest"))
    world.read_for(POLL_MS)
    lines = [text for key, text in world.rows if key == f"g\t{TOPIC_ID}\t0"]
    shard = ShardDriver()
    output = shard.batch(*lines, shard.line(fetch("f1", max_records=100), 0), at=0)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 49, 1]], until=LOCK_MS)]
