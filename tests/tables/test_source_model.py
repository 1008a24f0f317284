"""The rows that the shards receive add up to the whole state, whatever happens to tables, brokers and the source.

The source sends changes. The model computes the whole state each time. The two must never differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey
from tests.tables.source_world import COMMITTED, CONFIG, EARLIEST, World, decoded, state

TOPICS = {"orders": "old", "bills": "bills-id"}
KEYS = [SharePartitionKey(g, topic, id_, p) for g in "gh" for topic, id_ in TOPICS.items() for p in range(2)]
#: Longer than the pause after a missing response, and than the interval at which all logs are polled.
_LATER_MS = 11_000


class Told:
    """The state of the operator's shards according to the rows that they received."""

    def __init__(self) -> None:
        self.configs: dict[str, Any] = {}
        #: By shard and partition: the state epoch and the log offsets.
        self.led: dict[tuple[str, int], list[Any]] = {}
        self.deleted: set[tuple[str, int, int]] = set()

    def take(self, rows: list[tuple[str, str]]) -> None:
        order = ("config", "gone", "unload", "delete", "load", "log", "tick")
        for key, kind, body in sorted(((key, *decoded(row)) for key, row in rows), key=lambda row: order.index(row[1])):
            take: Callable[[str, Any], None] = getattr(self, f"_{kind}")
            take(key, body)

    def _config(self, key: str, config: dict[str, Any]) -> None:
        self.configs[key] = config

    def _gone(self, key: str, topic: str) -> None:
        self.led = {at: led for at, led in self.led.items() if at[0] != key}

    def _unload(self, key: str, partitions: list[int]) -> None:
        for partition in partitions:
            self.led.pop((key, partition), None)

    def _delete(self, key: str, deletions: list[Any]) -> None:
        for partition, epoch, _ in deletions:
            self.led.pop((key, partition), None)
            self.deleted.add((_topic_of(key), partition, epoch))

    def _load(self, key: str, loads: list[dict[str, Any]]) -> None:
        for load in loads:
            at = key, load["partition"]
            assert at not in self.led or self.led[at][0] < load["state_epoch"], "loaded twice"
            self.led[at] = [load["state_epoch"], load["log"]]

    def _log(self, key: str, logs: list[list[Any]]) -> None:
        for partition, *log in logs:
            self.led[key, partition][1] = log

    def _tick(self, key: str, clock_ms: int) -> None:
        """Ignore a tick, which has no content."""


def _topic_of(shard_key: str) -> str:
    return shard_key.rpartition("\t")[0]


class SourceMachine(RuleBasedStateMachine):
    """A source whose process, checkpoint and surroundings change at random."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.topics |= {"bills": ("bills-id", (0, 7, 7))}
        self.told = Told()
        self.shards = 1
        self.listed: dict[SharePartitionKey, SharePartitionRow] = {}
        self.epoch = 0
        #: The start offsets of share-partitions, by key and state epoch.
        self.starts: dict[tuple[SharePartitionKey, int], int] = {}

    # -- the tables ------------------------------------------------------------------------------------------------

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        start=st.sampled_from([-1, -1, 3]),
        reset=st.sampled_from(["earliest", "latest", "by_duration:PT1H"]),
        has_state=st.booleans(),
        is_away=st.booleans(),
    )
    def initializes(
        self, keys: list[SharePartitionKey], start: int, reset: str, has_state: bool, is_away: bool
    ) -> None:
        """A share-partition without a state waits while the brokers are unavailable."""
        self.world.is_away = is_away
        for key in keys:
            self.epoch += 1
            row = SharePartitionRow(key, True, self.epoch, start, auto_offset_reset=reset)
            self.listed[key] = row
            self.world.saved.pop(key, None)
            if has_state:
                header = state().header._replace(state_epoch=self.epoch)
                self.world.saved[key] = ShareGroupOffset(header, ())
        self._commit()
        self._read()

    @rule(key=st.sampled_from(KEYS), then=st.sampled_from(["initialized", "deleting", "gone"]))
    def goes_on(self, key: SharePartitionKey, then: str) -> None:
        row = self.listed.pop(key, None)
        if row is not None and then != "gone":
            self.listed[key] = row._replace(initializing=False, deleting=row.deleting or then == "deleting")
        self._commit()

    def _commit(self) -> None:
        self.world.list(*self.listed.values())

    # -- brokers and configs ---------------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(sorted(TOPICS)), more=st.integers(1, 3), start=st.integers(0, 2))
    def log_moves(self, topic: str, more: int, start: int) -> None:
        known = self.world.topics[topic]
        assert known is not None
        (first, end, stable) = known[1]
        self.world.topics[topic] = known[0], (first + start, end + more, stable)

    @rule(is_away=st.booleans())
    def brokers_go_or_come(self, is_away: bool) -> None:
        self.world.is_away = is_away

    @rule(config=st.sampled_from([CONFIG, EARLIEST, COMMITTED]))
    def config_is_altered(self, config: dict[str, Any]) -> None:
        self.world.of_group = self.world.of_group_polled = config

    # -- the source ------------------------------------------------------------------------------------------------

    @rule(requested=st.booleans(), waits=st.booleans(), safe_ms=st.sampled_from([0, 5]))
    def batch(self, requested: bool, waits: bool, safe_ms: int) -> None:
        self.world.requested = {"old"} if requested else set()
        self._read(waiting={"g\told\t0"} if waits else set(), safe_ms=safe_ms)

    @rule()
    def process_dies_between_batches(self) -> None:
        self.world.start(self.shards)

    @rule()
    def process_dies_in_a_batch_that_is_run_again(self) -> None:
        """The offset is in Spark's log, so another process, or an executor, makes the same rows."""
        before, known = self.world.offset, len(self.world.rows)
        self.world.read()
        self.world.start(self.shards)
        start, end = (SourceOffset.from_json(json.loads(json.dumps(o.to_json()))) for o in (before, self.world.offset))
        assert list(rows_between(start, end, self.world.states)) == self.world.rows[known:]
        self._run_batch(known)

    @rule()
    def process_dies_before_its_offset_is_in_the_log(self) -> None:
        """What it was about to send was not sent."""
        before, known = self.world.offset, len(self.world.rows)
        self.world.read()
        self.world.offset = before
        del self.world.rows[known:]
        self.world.start(self.shards)

    @rule(shards=st.sampled_from([1, 1, 2]))
    def checkpoint_is_lost(self, shards: int) -> None:
        self.shards = shards
        self.world.start(shards)
        self.world.offset = SourceOffset()
        self.told = Told()

    def _read(self, **told: Any) -> None:
        known = len(self.world.rows)
        self.world.read(**told)
        self._run_batch(known)

    def _run_batch(self, first: int) -> None:
        """Give each share-partition that is loaded without a state a state."""
        rows = self.world.rows[first:]
        self.told.take(rows)
        for shard_key, row in rows:
            kind, body = decoded(row)
            for load in body if kind == "load" else ():
                group_id, topic_id, _ = shard_key.split("\t")
                key = SharePartitionKey(group_id, load["topic"], topic_id, load["partition"])
                start = self.starts.setdefault((key, load["state_epoch"]), load["start_offset"])
                assert load["start_offset"] == start, "the start offset is decided once"
                header = state(start).header._replace(state_epoch=load["state_epoch"])
                self.world.saved[key] = ShareGroupOffset(header, ())

    # -- the whole -------------------------------------------------------------------------------------------------

    @rule()
    def the_shards_know_the_whole(self) -> None:
        """Check the sum of the rows as soon as everybody responds again."""
        self.world.is_away = False
        self._read(after_ms=_LATER_MS)
        self._read(after_ms=_LATER_MS)
        assert self.told.led == {
            self._at(row): [row.state_epoch, self._log(row.key)]
            for row in self.listed.values()
            if not row.deleting and row.key.topic_id not in self.world.offset.gone
        }
        for key, _ in self.told.led:
            assert self.told.configs[key] == (self.world.of_group if key.startswith("g\t") else CONFIG)
        for row in self.listed.values():
            named = _topic_of(self._at(row)[0]), row.key.partition, row.state_epoch
            assert not row.deleting or named in self.told.deleted

    def teardown(self) -> None:
        self.the_shards_know_the_whole()

    def _at(self, row: SharePartitionRow) -> tuple[str, int]:
        key = row.key
        return f"{key.group_id}\t{key.topic_id}\t{key.partition % self.shards}", key.partition

    def _log(self, key: SharePartitionKey) -> list[Any]:
        topic = self.world.topics[key.topic]
        assert topic is not None
        first, end, stable = topic[1]
        readers = {row.key.group_id for row in self.listed.values() if row.key.topic == key.topic and not row.deleting}
        reads = "g" in readers
        return [first, end, stable if reads and self.world.of_group is COMMITTED else None, True]


def test_the_rows_of_the_shards_equal_the_whole_whatever_dies() -> None:
    run_state_machine_as_test(SourceMachine, settings=settings(max_examples=120, stateful_step_count=25, deadline=None))
