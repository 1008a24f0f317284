"""The source's decisions, with tables, brokers and configs in memory and time as an argument: what is led, by which
config, how far its log reaches, and which topics are no more."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaConnectionError

from sharegroup.config import Config
from sharegroup.engine.log_offsets import LogOffsets
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.tables.schemas import SHARE_GROUP_STATE, SHARE_PARTITIONS
from sharegroup.tables.share_partition_row import SharePartitionRow
from sharegroup.types import RecordState, SharePartitionKey, StateBatch
from sharegroup.watch.hand_over import HandOver
from sharegroup.watch.log_offsets_plan import SourceOffset, TableReaders, rows_between, start_key
from sharegroup.watch.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.watch.topic_identities import CONFIRM_MS, LOOK_MS, TopicDescription
from tests.unit.engine.shard_driver import LOCK_MS, T0, TOPIC_ID, ShardDriver, acknowledge, answered, fetch

GRACE_MS = 30_000
OLD, NEW = SharePartitionKey("g", "orders", "old", 0), SharePartitionKey("g", "orders", "new", 0)
BILLS = SharePartitionKey("g", "bills", "bills-id", 0)
SHARD = "g\told\t0"
CONFIG = Config().group_config("g").to_json()
EARLIEST = CONFIG | {"auto_offset_reset": "earliest"}
COMMITTED = CONFIG | {"isolation_level": "read_committed"}


def row(key: SharePartitionKey, new: bool = False, reset: str | None = None, **values: Any) -> SharePartitionRow:
    return SharePartitionRow(key, new, 1, -1, auto_offset_reset=reset)._replace(**values)


def state(start_offset: int = 3) -> ShareGroupOffset:
    return ShareGroupOffset(ShareGroupOffsetHeader(0, 1, 1, start_offset, 0, 0, 0, 1), ())


class World:
    """What the source sees, and its offset; `read` is one look, and gives (shard, kind, body) of the rows."""

    def __init__(self, *rows: SharePartitionRow, states: Mapping[SharePartitionKey, ShareGroupOffset] | None = None):
        self.versions: list[list[SharePartitionRow]] = [list(rows)]
        self.saved = dict(states or {})
        #: By name: id and (log start, log end, last stable offset); None for what is not there.
        self.topics: dict[str, tuple[str, tuple[int, int, int]] | None] = {"orders": ("old", (0, 100, 90))}
        self.is_away = False
        self.tells_nothing = False
        self.described: list[list[str]] = []
        self.asked: list[tuple[str, bool]] = []
        self.of_group: Mapping[str, Any] = CONFIG
        self.of_group_polled: Mapping[str, Any] | None = None
        self.now_ms = 1_700_000_000_000
        self.offset = SourceOffset()
        #: (shard, row) of all batches so far, as the operator gets them.
        self.rows: list[tuple[str, str]] = []
        self.start()

    def start(self) -> None:
        """Another process of the source."""
        settings = PlannerSettings(shards=1, poll_ms=200, idle_poll_ms=5_000, deletion_grace_ms=GRACE_MS)
        self._planner = LogOffsetsPlanner(self, self, self, settings)

    # -- the protocols ---------------------------------------------------------------------------------------------

    def newest_version(self, table: str) -> int:
        return {SHARE_PARTITIONS.name: len(self.versions) - 1, SHARE_GROUP_STATE.name: 7}[table]

    def share_partitions(self, version: int) -> list[SharePartitionRow]:
        return self.versions[version]

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> dict[SharePartitionKey, ShareGroupOffset]:
        assert version == 7
        return {key: self.saved[key] for key in keys if key in self.saved}

    def in_force(self, now_ms: int, fresh: bool = False) -> Mapping[str, Mapping[str, Any]]:
        if fresh or self.of_group_polled is None:
            self.of_group_polled = self.of_group
        return {"": CONFIG, "g": self.of_group_polled}

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        self._check_there()
        if self.tells_nothing:
            raise KafkaConnectionError("no metadata")
        self.described.append(sorted(topics))
        known = {name: self.topics.get(name) for name in topics}
        return {
            name: TopicDescription(topic[0], {0: 1, 1: 1, 2: 1}) if topic else None for name, topic in known.items()
        }

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        self.asked += [(partition.topic, read_committed) for partition in partitions]
        return {partition: self._log(partition)[1 + read_committed] for partition in partitions}

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._log(partition)[0] for partition in partitions}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {partition: 42 for partition in times if self._log(partition)}

    def forget_leaders(self) -> None:
        pass

    def _log(self, partition: TopicPartition) -> tuple[int, int, int]:
        self._check_there()
        topic = self.topics[partition.topic]
        assert topic is not None
        return topic[1]

    def _check_there(self) -> None:
        if self.is_away:
            raise KafkaConnectionError("nobody there")

    # -- what a test does ------------------------------------------------------------------------------------------

    def list(self, *rows: SharePartitionRow) -> None:
        self.versions.append(list(rows))

    def read(self, after_ms: int = 200, **told: Any) -> list[tuple[str, str, Any]]:
        self.now_ms += after_ms
        after = self._planner.next(self.offset, HandOver(**told), False, 0, self.now_ms)
        if after is None:
            return []
        before, self.offset = self.offset, SourceOffset.from_json(json.loads(json.dumps(after.to_json())))
        found = list(rows_between(before, self.offset, TableReaders(self.share_partitions, self.states)))
        self.rows += found
        return [(key, *decoded(text)) for key, text in found]

    def read_for(self, ms: int) -> list[tuple[str, str, Any]]:
        """What it says in so many milliseconds, looking every 200."""
        return [found for _ in range(ms // 200) for found in self.read()]


def decoded(text: str) -> tuple[str, Any]:
    kind, body = text.split("\t", 1)
    return kind, json.loads(body)


def loads(rows: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    return [load for _, kind, body in rows if kind == "load" for load in body]


# -- what is led -------------------------------------------------------------------------------------------------------


def test_what_has_a_state_is_loaded_at_once_when_kafka_cannot_be_asked() -> None:
    """The acknowledgements in the first batch must find it; its log is told when it is known."""
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
    assert world.offset.waiting == (start_key(row(fresh)),)
    world.is_away = False
    world.versions[0].pop(1)
    later = world.read_for(2_000)
    assert [(kind, body) for _, kind, body in later if kind == "log"] == [("log", [[0, 0, 100, None, True]])]


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
    """The poll of the configs may be a moment old: the row knows better."""
    world = World()
    world.read()
    assert world.of_group_polled == CONFIG
    world.list(row(OLD, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert load["start_offset"] == 0


def test_a_share_partition_starts_at_its_logs_start_as_it_is_now() -> None:
    """Another group reads the topic already, so that its log is known; retention has gone on since."""
    world = World(row(OLD, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert load["start_offset"] == 0
    world.topics["orders"] = ("old", (50, 120, 120))
    other = OLD._replace(group_id="h")
    world.list(row(OLD, new=True, reset="earliest"), row(other, new=True, reset="earliest"))
    (load,) = loads(world.read())
    assert (load["start_offset"], load["log"]) == (50, [50, 120, None, True])


def test_a_config_that_is_said_with_a_load_is_as_new_as_can_be() -> None:
    world = World()
    world.read()
    world.of_group = COMMITTED
    assert world.read() == []
    world.list(row(OLD, new=True, reset="latest"))
    found = world.read()
    assert [(kind, body) for _, kind, body in found if kind == "config"] == [("config", COMMITTED)]


def test_a_config_that_changed_is_read_once_more_before_it_is_said() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.read()
    world.of_group_polled, world.of_group = EARLIEST, COMMITTED  # the poll of half a second ago, and now
    assert [body for _, kind, body in world.read() if kind == "config"] == [COMMITTED]


def test_a_start_by_time_is_looked_up_for_what_has_no_state_alone() -> None:
    other = OLD._replace(partition=1)
    by_time = "by_duration:PT1H"
    world = World(row(OLD, reset=by_time), row(other, new=True, reset=by_time), states={OLD: state()})
    assert [(load["partition"], load["start_offset"]) for load in loads(world.read())] == [(0, 3), (1, 42)]
    assert world.offset.starts == {start_key(row(other)): 42}


def test_the_last_stable_offset_is_asked_for_where_a_group_reads_committed_records() -> None:
    world = World(
        row(OLD), row(BILLS._replace(group_id="h")), states={OLD: state(), BILLS._replace(group_id="h"): state()}
    )
    world.topics["bills"] = ("bills-id", (0, 5, 5))
    world.of_group = COMMITTED
    world.read()
    assert world.offset.log == {
        "old": {"0": LogOffsets(0, 100, 90)},
        "bills-id": {"0": LogOffsets(0, 5)},
    }


# -- topics that are no more -------------------------------------------------------------------------------------------


def led() -> World:
    world = World(row(OLD), states={OLD: state()})
    world.read()
    world.read_for(LOOK_MS)
    return world


def gone(world: World, within_ms: int) -> int | None:
    """After how long the topic is said to be gone."""
    for at in range(200, within_ms + 1, 200):
        if (SHARD, "gone", "orders") in world.read():
            return at
    return None


@pytest.mark.parametrize("end", [50, 100, 500])
def test_a_topic_made_again_is_soon_known_for_another_and_its_log_never_for_the_old_ones(end: int) -> None:
    world = led()
    world.described.clear()
    while not world.described:
        assert world.read() == []
    world.topics["orders"] = ("new", (0, end, end))
    assert world.read(waiting=frozenset({SHARD})) == []  # the name is looked up before another end is believed
    assert len(world.described) == 1 + (end != 100)
    assert gone(world, 2 * LOOK_MS + CONFIRM_MS) is not None
    assert world.offset.log["old"] == {"0": LogOffsets(0, 100)}
    assert world.offset.gone == ("old",)
    assert world.read_for(10_000) == []


def test_an_end_is_not_believed_while_the_name_cannot_be_looked_up() -> None:
    world = led()
    world.topics["orders"] = ("old", (0, 500, 500))
    world.tells_nothing = True
    assert world.read(waiting=frozenset({SHARD})) == []
    world.tells_nothing = False
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 500, None, True]])]


def test_the_new_topic_is_loaded_beside_it_and_the_old_one_is_forgotten_with_its_row() -> None:
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
    assert (world.offset.gone, list(world.offset.log)) == ((), ["new"])


def test_a_topic_is_gone_when_its_absence_was_answered_for_the_grace_time() -> None:
    world = led()
    world.topics["orders"] = None
    after = gone(world, GRACE_MS + 2 * LOOK_MS)
    assert after is not None
    assert GRACE_MS <= after <= GRACE_MS + 2 * LOOK_MS


def test_nothing_is_concluded_from_silence() -> None:
    world = led()
    world.is_away = True
    assert gone(world, 4 * GRACE_MS) is None
    world.is_away, world.topics["orders"] = False, None
    assert gone(world, GRACE_MS - 200) is None


def test_a_topic_that_is_back_in_time_was_never_gone() -> None:
    world = led()
    topic, world.topics["orders"] = world.topics["orders"], None
    assert gone(world, GRACE_MS - 2 * LOOK_MS) is None
    world.topics["orders"] = topic
    assert gone(world, LOOK_MS) is None
    world.topics["orders"] = None
    assert gone(world, GRACE_MS - 2 * LOOK_MS) is None


def test_another_id_for_a_name_whose_own_was_never_seen_may_be_metadata_that_is_behind() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("older", (0, 7, 7))
    assert gone(world, GRACE_MS - LOOK_MS) is None
    assert world.offset.log == {}
    world.topics["orders"] = ("old", (0, 100, 90))
    assert gone(world, 2 * GRACE_MS) is None
    assert world.offset.log == {"old": {"0": LogOffsets(0, 100)}}


def test_a_topic_that_was_made_again_while_the_job_was_down_is_gone_after_the_grace_time() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("new", (0, 7, 7))
    assert gone(world, GRACE_MS + 2 * LOOK_MS) is not None


def test_an_answer_that_is_behind_does_not_take_the_new_topic_away() -> None:
    world = led()
    world.topics["orders"] = ("new", (0, 50, 50))
    assert gone(world, 10_000) is not None
    world.list(row(NEW, new=True, reset="earliest"))
    world.read()
    world.topics["orders"] = ("old", (0, 100, 90))
    found = world.read_for(GRACE_MS - LOOK_MS)
    assert [kind for _, kind, _ in found if kind == "gone"] == []


def test_a_single_other_answer_is_not_believed_and_not_forgotten_for_good() -> None:
    world = led()
    world.topics["orders"] = ("new", (0, 100, 90))
    world.described.clear()
    while not world.described:
        assert world.read(100) == []
    world.topics["orders"] = ("old", (0, 100, 90))
    assert gone(world, 2 * GRACE_MS) is None
    world.topics["orders"] = ("new", (0, 100, 90))
    after = gone(world, GRACE_MS + 3 * LOOK_MS)
    assert after is not None
    assert after >= GRACE_MS


def test_without_topic_ids_a_log_that_falls_is_told_as_such() -> None:
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (0, 100, 90))
    assert [load["log"] for load in loads(world.read())] == [[0, 100, None, False]]
    world.topics["orders"] = ("", (0, 50, 50))
    found = world.read_for(GRACE_MS)
    assert found == [(SHARD, "log", [[0, 0, 50, None, False]])]
    world.topics["orders"] = None
    assert gone(world, 2 * GRACE_MS) is not None


def test_a_log_that_falls_is_told_with_its_own_start() -> None:
    """Else a new topic would be read from where the log before had begun, beyond its end."""
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (29, 29, 29))
    world.read()
    world.topics["orders"] = ("", (0, 15, 15))
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 15, None, False]])]


def test_a_log_without_an_id_is_told_as_such_when_a_look_found_its_name_without_a_topic_before() -> None:
    """Its leader is asked while nobody has looked again: what it says would be taken for a log with an id."""
    world = World(row(OLD), states={OLD: state()})
    world.topics["orders"] = ("", (0, 1_000, 1_000))
    world.read_for(LOOK_MS)
    looks = len(world.described)
    world.topics["orders"] = None
    world.read()
    assert len(world.described) == looks + 1
    world.topics["orders"] = ("", (0, 50, 50))
    assert world.read(waiting=frozenset({SHARD})) == [(SHARD, "log", [[0, 0, 50, None, False]])]


@pytest.mark.parametrize("name", ["bad name", "", ".."])
def test_what_no_topic_can_be_called_is_not_looked_up(name: str) -> None:
    world = World(row(OLD._replace(topic=name)))
    world.read_for(2 * GRACE_MS)
    assert [looked_up for looked_up in world.described if looked_up] == []
    assert world.offset.gone == ()


# -- with the operator -------------------------------------------------------------------------------------------------


def test_a_start_without_a_checkpoint_and_without_the_leader_loses_no_acknowledgement() -> None:
    """The request was appended twelve seconds before the first batch; the gateway has answered it with success."""
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


def test_a_topic_made_again_is_read_from_its_start_by_those_who_know_its_new_id() -> None:
    """Old start offset 1,000; the new log has 50 records."""
    world = World(row(OLD), states={OLD: state(1_000)})
    world.topics["orders"] = ("old", (0, 1_000, 1_000))
    world.read_for(LOOK_MS)
    world.topics["orders"] = ("new", (0, 50, 50))
    assert gone(world, 10_000) is not None
    new = NEW._replace(topic_id=TOPIC_ID)
    world.topics["orders"] = (TOPIC_ID, (0, 50, 50))
    world.list(row(OLD, deleting=True), row(new, new=True, reset="earliest"))
    world.read_for(LOOK_MS)
    lines = [text for key, text in world.rows if key == f"g\t{TOPIC_ID}\t0"]
    shard = ShardDriver()
    output = shard.batch(*lines, shard.line(fetch("f1", max_records=100), 0), at=0)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 49, 1]], until=LOCK_MS)]
