"""From two offsets of the source to its rows: what is loaded, unloaded, told and ticked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sharegroup.config import Config
from sharegroup.engine.log_offsets import LogOffsets
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.tables.share_partition_row import SharePartitionRow
from sharegroup.types import RecordState, SharePartitionKey, StateBatch
from sharegroup.watch.log_offsets_plan import (
    OlderFormatError,
    SourceOffset,
    TableReaders,
    rows_between,
    start_key,
    to_load,
)

P0, P1, P2 = (SharePartitionKey("g", "orders", "id", partition) for partition in range(3))
CONFIG = Config().group_config("g").to_json()
LOG = LogOffsets(5, 20, 18)
HEADER = ShareGroupOffsetHeader(3, 1, 7, 8, 0, 2, 1_000, 7)
STATE = ShareGroupOffset(HEADER, (StateBatch(8, 9, RecordState.ACQUIRED, 1, "m1", 31_000),))


def listed(
    key: SharePartitionKey,
    state_epoch: int = 1,
    start_offset: int = -1,
    new: bool = False,
    deleting: bool = False,
    reset: str | None = None,
) -> SharePartitionRow:
    return SharePartitionRow(key, new, state_epoch, start_offset, deleting, reset)


class FakeTables:
    """Versions of share_partitions, and of the states; `asked` is which states were read."""

    def __init__(self, *versions: Collection[SharePartitionRow], states: Mapping[int, Any] | None = None) -> None:
        self._versions = versions
        self._states = states or {}
        self.asked: list[tuple[int, list[SharePartitionKey]]] = []

    def tables(self) -> TableReaders:
        return TableReaders(lambda version: self._versions[version], self._read)

    def _read(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        self.asked.append((version, sorted(keys)))
        return {key: state for key, state in self._states.get(version, {}).items() if key in keys}

    def rows(self, start: SourceOffset, end: SourceOffset) -> list[tuple[str, str, Any]]:
        """(shard key, kind, body) of the batch; the same in a second run, and through the offsets' JSON."""
        found = list(rows_between(start, end, self.tables()))
        through_json = [SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) for offset in (start, end)]
        assert list(rows_between(*through_json, self.tables())) == found
        return [(key, *decoded(row)) for key, row in found]


def decoded(row: str) -> tuple[str, Any]:
    kind, body = row.split("\t", 1)
    return kind, json.loads(body)


def loads(rows: list[tuple[str, str, Any]]) -> dict[str, list[int]]:
    """The partitions that each shard loads."""
    return {key: [load["partition"] for load in body] for key, kind, body in rows if kind == "load"}


def offset(log: Mapping[int, LogOffsets] | None = None, **values: Any) -> SourceOffset:
    known = {0: LOG, 1: LOG} if log is None else log
    topics = {"id": {str(partition): offsets for partition, offsets in known.items()}}
    defaults = {"seq": 1, "shards": 1, "partitions_version": 0, "state_version": 0, "configs": {"g": CONFIG}}
    return SourceOffset(log=topics, **defaults | values)


def loaded(partition: int, **values: Any) -> dict[str, Any]:
    row = {
        "topic": "orders",
        "partition": partition,
        "state_epoch": 1,
        "initializing": False,
        "start_offset": 20,
        "log": [5, 20, 18, True],
        "header": None,
        "batches": [],
    }
    return row | values


def reset_by(strategy: str, **more: Any) -> dict[str, Any]:
    return {"configs": {"g": CONFIG | {"auto_offset_reset": strategy} | more}}


def test_the_first_batch_loads_everything_with_its_config() -> None:
    tables = FakeTables([listed(P1, new=True), listed(P0)], states={0: {P0: STATE}})
    assert tables.rows(SourceOffset(), offset()) == [
        ("g\tid\t0", "config", CONFIG),
        (
            "g\tid\t0",
            "load",
            [
                loaded(0, start_offset=8, header=list(HEADER), batches=[[8, 9, 1, 1, "m1", 31_000]]),
                loaded(1, initializing=True),
            ],
        ),
    ]
    assert tables.asked[0] == (0, [P0, P1])


def test_share_partitions_are_dealt_out_to_the_shards() -> None:
    tables = FakeTables([listed(P0), listed(P1), listed(P2)])
    rows = tables.rows(SourceOffset(), offset({0: LOG, 1: LOG, 2: LOG}, shards=2))
    assert loads(rows) == {"g\tid\t0": [0, 2], "g\tid\t1": [1]}


def test_what_waits_is_not_led() -> None:
    tables = FakeTables([listed(P0), listed(P1)])
    start = offset({0: LOG}, waiting=(start_key(listed(P1)),))
    assert loads(tables.rows(SourceOffset(), start)) == {"g\tid\t0": [0]}
    assert loads(tables.rows(start, offset(seq=2))) == {"g\tid\t0": [1]}


def test_what_has_a_state_is_loaded_without_its_log_offsets_which_are_told_later() -> None:
    tables = FakeTables([listed(P0)], states={0: {P0: STATE}})
    start = offset({})
    batches = [[8, 9, 1, 1, "m1", 31_000]]
    (load,) = tables.rows(SourceOffset(), start)[1][2]
    assert load == loaded(0, start_offset=8, log=None, header=list(HEADER), batches=batches)
    assert tables.rows(start, offset({0: LOG}, seq=2)) == [("g\tid\t0", "log", [[0, 5, 20, 18, True]])]


def test_what_was_told_its_start_offset_needs_no_log_offsets() -> None:
    tables = FakeTables([listed(P0, start_offset=12, new=True)])
    (load,) = tables.rows(SourceOffset(), offset({}))[1][2]
    assert load == loaded(0, start_offset=12, log=None, initializing=True)


def test_equal_offsets_make_no_rows() -> None:
    assert FakeTables([listed(P0)]).rows(offset(), offset()) == []


def test_only_what_changed_in_the_log_is_told() -> None:
    tables = FakeTables([listed(P0), listed(P1)])
    end = offset({0: LOG, 1: LogOffsets(6, 30)}, seq=2)
    assert tables.rows(offset(), end) == [("g\tid\t0", "log", [[1, 6, 30, None, True]])]
    assert tables.asked == []


def test_a_changed_config_is_told() -> None:
    tables = FakeTables([listed(P0)])
    committed = CONFIG | {"isolation_level": "read_committed"}
    rows = tables.rows(offset({0: LOG}), offset({0: LOG}, configs={"g": committed}))
    assert rows == [("g\tid\t0", "config", committed)]


def test_a_group_without_values_of_its_own_has_the_jobs() -> None:
    job = CONFIG | {"delivery_count_limit": 7}
    rows = FakeTables([listed(P0)]).rows(SourceOffset(), offset({0: LOG}, configs={"": job}))
    assert rows[0] == ("g\tid\t0", "config", job)


@pytest.mark.parametrize(
    ("values", "told", "start_offset"),
    [
        (reset_by("earliest"), -1, 5),
        (reset_by("latest"), -1, 20),
        (reset_by("latest"), 12, 12),
        (reset_by("latest"), 0, 5),
        (reset_by("by_duration:PT1H") | {"starts": {start_key(listed(P0)): 9}}, -1, 9),
        (reset_by("by_duration:PT1H"), 12, 12),
    ],
)
def test_where_a_share_partition_without_state_starts(values: dict[str, Any], told: int, start_offset: int) -> None:
    tables = FakeTables([listed(P0, start_offset=told)])
    load = tables.rows(SourceOffset(), offset({0: LOG}, **values))[1][2][0]
    assert load["start_offset"] == start_offset


@pytest.mark.parametrize(
    ("row", "start_offset"), [("earliest", 5), ("latest", 20), ("by_duration:PT1H", 9), (None, 20)]
)
def test_the_config_of_when_it_was_made_says_where_a_share_partition_starts(row: str | None, start_offset: int) -> None:
    made = listed(P0, reset=row, new=True)
    values = reset_by("latest") | {"starts": {start_key(made): 9}}
    load = FakeTables([made]).rows(SourceOffset(), offset({0: LOG}, **values))[1][2][0]
    assert load["start_offset"] == start_offset


def test_a_reset_loads_the_higher_state_epoch_over_the_old_state() -> None:
    tables = FakeTables([listed(P0)], [listed(P0, 2, 12, new=True)], states={1: {P0: STATE}})
    end = offset({0: LOG}, partitions_version=1, state_version=1)
    assert tables.rows(offset({0: LOG}), end)[1:] == [
        (
            "g\tid\t0",
            "load",
            [loaded(0, state_epoch=2, start_offset=12, initializing=True, header=list(HEADER))],
        )
    ]


def test_a_share_partition_that_is_not_listed_any_more_is_unloaded() -> None:
    tables = FakeTables([listed(P0), listed(P1)], [listed(P0)])
    assert tables.rows(offset(), offset(partitions_version=1)) == [("g\tid\t0", "unload", [1])]


def test_a_share_partition_that_is_being_deleted_is_told_once_and_led_no_more() -> None:
    tables = FakeTables([listed(P0), listed(P1)], [listed(P0, deleting=True), listed(P1)], [listed(P1)])
    first, second, third = (offset(partitions_version=version, seq=version + 1) for version in range(3))
    assert tables.rows(first, second) == [("g\tid\t0", "delete", [[0, 1, "orders"]])]
    assert tables.rows(second, replace(second, seq=9)) == []
    assert tables.rows(second, third) == []
    from_nothing = tables.rows(SourceOffset(), second)
    assert [(kind, body) for _, kind, body in from_nothing if kind == "delete"] == [("delete", [[0, 1, "orders"]])]
    assert loads(from_nothing) == {"g\tid\t0": [1]}


def test_a_deletion_needs_no_log_offsets() -> None:
    tables = FakeTables([listed(P2, deleting=True)])
    assert tables.rows(SourceOffset(), offset()) == [("g\tid\t0", "delete", [[2, 1, "orders"]])]


def test_another_number_of_shards_unloads_the_old_key_and_deletes_by_the_new() -> None:
    tables = FakeTables([listed(P1)], [listed(P1, deleting=True)])
    rows = tables.rows(offset({1: LOG}), offset({1: LOG}, shards=2, partitions_version=1))
    assert rows == [("g\tid\t0", "unload", [1]), ("g\tid\t1", "delete", [[1, 1, "orders"]])]


@pytest.mark.parametrize("deletion_was_seen", [True, False])
def test_what_is_made_anew_while_it_is_being_deleted_is_loaded(deletion_was_seen: bool) -> None:
    anew = [listed(P0, 4, new=True)]
    tables = FakeTables([listed(P0, deleting=deletion_was_seen)], anew, states={1: {P0: STATE}})
    end = offset({0: LOG}, partitions_version=1, state_version=1, **reset_by("earliest"))
    (load,) = tables.rows(offset({0: LOG}, **reset_by("earliest")), end)[1][2]
    assert load == loaded(0, state_epoch=4, start_offset=5, initializing=True, header=list(HEADER))


def test_initialized_in_place_of_initializing_makes_no_rows() -> None:
    tables = FakeTables([listed(P0, new=True)], [listed(P0)])
    assert tables.rows(offset({0: LOG}), offset({0: LOG}, partitions_version=1)) == []


def test_another_number_of_shards_unloads_the_old_keys_and_loads_the_new() -> None:
    tables = FakeTables([listed(P0), listed(P1)], states={4: {P0: STATE}})
    rows = tables.rows(offset(), offset(shards=2, state_version=4))
    assert [(key, kind) for key, kind, _ in rows] == [
        ("g\tid\t0", "unload"),
        ("g\tid\t0", "config"),
        ("g\tid\t1", "config"),
        ("g\tid\t0", "load"),
        ("g\tid\t1", "load"),
    ]
    assert rows[0][2] == [0, 1]
    assert rows[3][2] == [loaded(0, start_offset=8, header=list(HEADER), batches=[[8, 9, 1, 1, "m1", 31_000]])]


def test_ticks_come_last_with_their_clock() -> None:
    end = offset({0: LogOffsets(5, 21, 21)}, clock_ms=90, tick_keys=("g\tid\t0", "g2\tbills\t0"))
    rows = FakeTables([listed(P0)]).rows(offset({0: LOG}), end)
    assert rows[1:] == [("g\tid\t0", "tick", 90), ("g2\tbills\t0", "tick", 90)]


def test_ticks_of_an_earlier_batch_are_not_repeated() -> None:
    start = offset({0: LOG}, clock_ms=90, tick_keys=("g\tid\t0",))
    assert FakeTables([listed(P0)]).rows(start, replace(start, tick_keys=(), seq=2)) == []


@pytest.mark.parametrize(
    ("change", "loaded"),
    [
        ({}, []),
        ({"seq": 9, "clock_ms": 5, "tick_keys": ("k",)}, []),
        ({"log": {0: LOG, 1: LogOffsets(5, 99, 99)}}, []),
        ({"waiting": ()}, [P1]),
        ({"waiting": (), "gone": ("id",)}, []),
        ({"shards": 2}, [P0]),
        ({"partitions_version": 1}, [P2]),
    ],
)
def test_what_a_batch_loads(change: dict[str, Any], loaded: list[SharePartitionKey]) -> None:
    tables = FakeTables([listed(P0), listed(P1)], [listed(P0), listed(P1), listed(P2)])
    start = offset(waiting=(start_key(listed(P1)),))
    end = offset(**{"waiting": start.waiting} | change)
    assert [row.key for row in to_load(start, end, tables.tables())] == loaded


# -- topics that are no more -------------------------------------------------------------------------------------------


def test_the_shards_of_a_topic_that_is_gone_are_told_once() -> None:
    other = SharePartitionKey("g", "bills", "bills-id", 0)
    tables = FakeTables([listed(P0), listed(P1, new=True), listed(other, start_offset=0)])
    start = offset(waiting=(start_key(listed(P1)),))
    end = offset(gone=("id",), seq=2)
    assert tables.rows(start, end) == [("g\tid\t0", "gone", "orders")]
    assert tables.rows(end, replace(end, seq=3)) == []
    from_nothing = tables.rows(SourceOffset(), end)
    assert [row for row in from_nothing if row[1] in ("gone", "load")] == [
        ("g\tid\t0", "gone", "orders"),
        ("g\tbills-id\t0", "load", [loaded(0, topic="bills", log=None, start_offset=0)]),
    ]


def test_a_share_partition_of_a_topic_that_is_gone_is_told_again_when_it_is_listed_anew() -> None:
    tables = FakeTables([listed(P0)], [], [listed(P0, 3)])
    first, second, third = (
        offset(partitions_version=v, gone=gone, seq=v) for v, gone in enumerate([("id",), (), ("id",)])
    )
    assert tables.rows(first, second) == []
    assert tables.rows(second, third) == [("g\tid\t0", "gone", "orders")]


def test_the_deletion_of_what_is_gone_is_told_as_any_other() -> None:
    tables = FakeTables([listed(P0)], [listed(P0, deleting=True)])
    start, end = offset(gone=("id",)), offset(gone=(), partitions_version=1, seq=2)
    assert tables.rows(start, end) == [("g\tid\t0", "delete", [[0, 1, "orders"]])]


def test_an_offset_comes_back_from_its_json() -> None:
    lists = {"tick_keys": ("a", "b"), "gone": ("id",), "waiting": (start_key(listed(P0)),)}
    written = offset(starts={start_key(listed(P0)): 3}, clock_ms=7, **lists)
    assert SourceOffset.from_json(json.loads(json.dumps(written.to_json()))) == written
    assert SourceOffset.from_json(json.loads(json.dumps(SourceOffset().to_json()))) == SourceOffset()


@pytest.mark.parametrize("written", [{"seq": 1, "log": {}, "tick_keys": []}, {"format": 3}])
def test_an_offset_of_another_version_is_refused_with_what_to_do(written: dict[str, Any]) -> None:
    with pytest.raises(OlderFormatError, match="remove its directory"):
        SourceOffset.from_json(written)
