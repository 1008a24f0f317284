"""One change, with 1,000 and with 100,000 share-partitions known: each step that knows all of them, by itself.

A log that somebody waits for has moved; 200 keys have other deadlines than before; a row of `share_partitions` is
another. In a process of its own each, and without Spark and Kafka: the parts that B13 is the whole of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.clock.handover_file import HandoverFileReader, HandoverFileWriter
from sharegroup.job.commit.current_rows import CurrentRows
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.storage.following.pinned_tables import PinnedTables
from sharegroup.storage.schemas import ALL_TABLES, SHARE_PARTITIONS, table_path
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import SharePartitionKey
from tests.benchmarks.figures import Figure, median
from tests.tables.source_world import World, row, state

NAME = "one change"
_REACH = 1.5
_FEW = 1_000
_PARTITIONS = 3
_KEYS_OF_A_BATCH = 200


class _Took(NamedTuple):
    """Median times in ms; of the source's offset its JSON's size in bytes."""

    log_end: float
    hand_over: float
    committed_row: float
    read_row: float
    offset_bytes: float


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """What each step costs with many against with few."""
    many, times = (10_000, 10) if quick else (100_000, 50)
    took = {known: _measure(directory / f"known-{known}", known, times) for known in (_FEW, many)}
    details: dict[str, object] = {str(known): each._asdict() for known, each in took.items()}
    steps = {
        "log_end": ("a log end moved: look, offset, rows", "ms"),
        "hand_over": (f"{_KEYS_OF_A_BATCH} other deadlines: told, read, asked for", "ms"),
        "committed_row": ("one row of share_partitions: its commit", "ms"),
        "read_row": ("one row of share_partitions: read by the source", "ms"),
        "offset_bytes": ("a log end moved: the source's offset", "bytes"),
    }
    return [
        Figure(NAME, f"{what}, {many:,} known against {_FEW:,}", big, unit, small, big / small, f"<= {_REACH}",
               big / small <= _REACH)
        for name, (what, unit) in steps.items()
        for small, big in [(getattr(took[_FEW], name), getattr(took[many], name))]
    ], details  # fmt: skip


def _measure(directory: Path, known: int, times: int) -> _Took:
    directory.mkdir(parents=True)
    keys = [
        SharePartitionKey(f"group-{number:05}", f"topic-{number:05}", f"id-{number:05}", partition)
        for number in range(-(-known // _PARTITIONS))
        for partition in range(_PARTITIONS)
    ]
    look_ms, offset_bytes = _log_end(keys, times)
    return _Took(look_ms, _hand_over(directory, keys, times), *_changed_row(directory, keys, times), offset_bytes)


def _log_end(keys: list[SharePartitionKey], times: int) -> tuple[float, float]:
    world = World(*(row(key) for key in keys), states={key: state() for key in keys})
    world.topics = {key.topic: (key.topic_id, (0, 100, 90)) for key in keys}
    world.read()
    world.requested = {keys[0].topic_id}
    ends = iter(range(101, 1_000_000))

    def moved() -> None:
        world.topics[keys[0].topic] = (keys[0].topic_id, (0, next(ends), 90))
        told = [kind for _, kind, _ in world.read()]
        if told != ["log"]:
            raise RuntimeError(f"one moved log end was told as {told}")

    return _median_ms(moved, times), float(len(json.dumps(world.offset.to_json())))


def _hand_over(directory: Path, keys: list[SharePartitionKey], times: int) -> float:
    shards = sorted({ShardKey(key.group_id, key.topic_id, 0).encode() for key in keys})
    writer, reader = (kind(str(directory / "hand-over")) for kind in (HandoverFileWriter, HandoverFileReader))
    writer.write(HandoverChange(dict.fromkeys(shards, 10**9), dict.fromkeys(shards, True)))
    reader.read()
    clock = iter(range(1, 1_000_000))

    def change() -> None:
        now_ms = next(clock)
        writer.write(HandoverChange(dict.fromkeys(shards[:_KEYS_OF_A_BATCH], 10**8 + now_ms)))
        if reader.read().deadlines.due_keys(now_ms):
            raise RuntimeError("nothing is due yet")

    return _median_ms(change, times)


def _changed_row(directory: Path, keys: list[SharePartitionKey], times: int) -> tuple[float, float]:
    root = str(directory / "tables")
    writer = DeltaTableWriter(root, SHARE_PARTITIONS)
    writer.become_leader(1)
    rows = [_table_row(key) for key in keys]
    current, clock = CurrentRows(SHARE_PARTITIONS, []), iter(range(1_000_000))

    def commit(changed: list[dict[str, object]]) -> None:
        number = next(clock)
        writer.commit("benchmark", number, lambda: current.stage(changed, number))
        current.apply_staged()

    commit(rows)
    tables = PinnedTables({spec.name: table_path(root, spec) for spec in ALL_TABLES}, {})
    versions = [tables.newest_version(SHARE_PARTITIONS.name)]
    tables.share_partitions(versions[0])
    epochs = iter(range(2, 1_000_000))

    def read() -> None:
        versions.append(tables.newest_version(SHARE_PARTITIONS.name))
        if len(tables.changes(*versions[-2:]).listed) != 1:
            raise RuntimeError("one changed row was not read as one")

    committed_ms, read_ms = [], []
    for _ in range(times):
        changed = [{**rows[0], "state_epoch": next(epochs)}]
        committed_ms.append(_median_ms(lambda changed=changed: commit(changed), 1))
        read_ms.append(_median_ms(read, 1))
    return median(committed_ms), median(read_ms)


def _table_row(key: SharePartitionKey) -> dict[str, object]:
    initialized = {"status": "initialized", "state_epoch": 1, "start_offset": -1, "auto_offset_reset": None}
    return {**key._asdict(), **initialized}


def _median_ms(step: Callable[[], None], times: int) -> float:
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        step()
        took.append((time.perf_counter() - begin) * 1000)
    return median(took)
