"""`kafka_log_offsets`: the Python streaming source beside the request topic of the share_partition query.

It says which share-partitions to lead (rows of the `share_partitions` table, with the state to load), how far their
logs reach, and when a key's deadline is due. Nothing new: no rows, and Spark runs no batch. It runs in a Python worker
of the driver, apart from the driver's own Python; `readBetweenOffsets` of a batch that is run again runs on an
executor.

The clock of a tick is a *safe* time: all requests appended before it have been read by committed batches. So a lock
never expires while an acknowledgement that was in time is still unread, however long the backlog.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.channel.kafka_client_log import set_up_kafka_client_log
from sharegroup.config import IsolationLevel, OffsetResetStrategy
from sharegroup.spark.config_poll import ConfigPoll
from sharegroup.spark.hand_over import HandOver, HandOverFile
from sharegroup.spark.log_offsets_plan import (
    LogOffsets,
    SharePartitionRow,
    SourceOffset,
    Tables,
    led,
    may_load,
    rows_between,
    start_key,
    to_lead,
)
from sharegroup.spark.log_poll import LogPoll
from sharegroup.spark.partition_leaders import PartitionLeaders
from sharegroup.spark.pinned_tables import PinnedTables
from sharegroup.spark.request_clock import RequestClock, Waiting
from sharegroup.spark.shard_keys import ShardKey
from sharegroup.tables.schemas import SHARE_GROUP_STATE, SHARE_PARTITIONS
from sharegroup.types import SharePartitionKey

logger = logging.getLogger(__name__)

SOURCE_NAME = "kafka_log_offsets"
#: How often the `share_partitions` table is looked at while nobody waits for records.
_TABLE_POLL_MS = 500
#: How long requests wait that nobody waits for, while no member waits for records either.
_LINGER_MS = 500
#: How long a leader may take to say where its logs end: all groups wait meanwhile.
_LOG_TIMEOUT_MS = 1_000
READER = f"{__name__}:LogOffsetsReader"
SOURCE_SCHEMA = "shard_key STRING, row STRING"

_Found = TypeVar("_Found")


class LogOffsetsReader(SimpleDataSourceStreamReader):
    """See the module. `options` is the JSON that `share_partition_query` makes."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        set_up_kafka_client_log(logging.ERROR)  # a worker's log, which nobody sets up: it shows each repeated request
        self._options = options
        self._tables = PinnedTables(options["tables"], options["storage_options"])
        self._hand_over = HandOverFile(options["hand_over"])
        self._configs = ConfigPoll(options["job_config"], options["tables_path"], options["storage_options"])
        self._poll = LogPoll(options["kafka"], _LOG_TIMEOUT_MS)
        self._leaders = PartitionLeaders(self._poll.leaders_of)
        self._clock = RequestClock(LogPoll(options["kafka"]), options["requests_topic"], options["idle_poll_ms"])
        self._polled_ms = {"log": 0, "waiting": 0}
        self._ticked_all = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing read, nothing led: the first batch loads everything from the tables."""
        return SourceOffset().to_json()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str, str]], dict[str, Any]]:
        """What is new after `start`; an equal offset and no rows if nothing is."""
        before = SourceOffset.from_json(start)
        try:
            after = self._wait_for_news(replace(before, tick_keys=()))
        except KafkaError as error:
            logger.warning("log offsets cannot be polled, will try again: %s", error)
            time.sleep(self._options["block_ms"] / 1000)  # brokers that are away are not asked without a pause
            return iter(()), start
        if after is None:
            return iter(()), start
        after = replace(after, seq=before.seq + 1)
        return iter(list(rows_between(before, after, self._plan_tables()))), after.to_json()

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[str, str]]:  # noqa: N802
        """The rows of a batch once more; looks at nothing but the two offsets and the pinned table versions."""
        found = rows_between(SourceOffset.from_json(start), SourceOffset.from_json(end), self._plan_tables())
        return iter(list(found))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to forget."""

    def _plan_tables(self) -> Tables:
        return Tables(self._tables.share_partitions, self._tables.states)

    def _wait_for_news(self, before: SourceOffset) -> SourceOffset | None:
        """The next offset; None if nothing is new, or only requests are, which Spark's Kafka source brings."""
        waiting = Waiting(self._options["block_ms"])
        requested, safe_ms = False, 0
        while True:
            now_ms = _now_ms()
            told = self._hand_over.read()
            deadline_ms = min(told.deadlines.values(), default=None)
            is_due = deadline_ms is not None and deadline_ms <= now_ms
            may_linger = not told.waiting and not is_due
            if not safe_ms or is_due:
                pending, safe_ms = self._clock.observe(now_ms, told.positions)
                requested |= pending and not may_linger
            after = self._with_log(before, self._with_tables(before, now_ms), told, requested, now_ms)
            after = self._with_state(before, after)
            after = self._with_ticks(after, told, safe_ms)
            if after != before:
                return after
            slice_ms = self._options["poll_ms"] if told.waiting else _TABLE_POLL_MS
            wait_ms = waiting.next_ms(now_ms, deadline_ms, slice_ms)
            if requested or not wait_ms:
                return None
            requested = self._clock.wait(told.positions, wait_ms, _LINGER_MS if may_linger else 0)

    def _with_tables(self, offset: SourceOffset, now_ms: int) -> SourceOffset:
        return replace(
            offset,
            partitions_version=self._tables.newest_version(SHARE_PARTITIONS.name),
            shards=self._options["shards"],
            configs=self._configs.in_force(now_ms),
        )

    def _with_state(self, before: SourceOffset, after: SourceOffset) -> SourceOffset:
        """Pin the newest state, which all committed batches are in, whenever something may be loaded from it."""
        if not may_load(before, after):
            return after
        return replace(after, state_version=self._tables.newest_version(SHARE_GROUP_STATE.name))

    def _with_log(
        self, before: SourceOffset, offset: SourceOffset, told: HandOver, pending: bool, now_ms: int
    ) -> SourceOffset:
        """Poll the logs: all when idle for long or asked for, those with waiting members often, new ones at once."""
        rows = to_lead(offset, self._plan_tables())
        listed = [row.key for row in rows]
        idle = self._is_due("log", now_ms, self._options["idle_poll_ms"])
        often = self._is_due("waiting", now_ms, self._options["poll_ms"])
        waiting = {ShardKey.decode(key)[:2] for key in told.waiting} if often else set()
        # A share-partition that is new starts at its log's end as it is now, also in a topic that others read already.
        # And a group whose config changed may now see another end of it.
        new_rows = (offset.partitions_version, offset.configs) != (before.partitions_version, before.configs)
        wanted = {
            TopicPartition(key.topic, key.partition)
            for key in listed
            if idle or pending or new_rows or key[:2] in waiting or offset.offsets_of(key.topic, key.partition) is None
        }
        if not wanted:
            return offset
        log = {topic: dict(partitions) for topic, partitions in offset.log.items()}
        for partition, offsets in self._poll_log(offset, wanted, idle, listed).items():
            log.setdefault(partition.topic, {})[str(partition.partition)] = offsets
        polled = replace(offset, log=log)
        return replace(polled, starts=self._starts_by_time(polled, rows, now_ms))

    def _poll_log(
        self,
        offset: SourceOffset,
        wanted: Collection[TopicPartition],
        idle: bool,
        listed: Collection[SharePartitionKey],
    ) -> dict[TopicPartition, LogOffsets]:
        committed_groups = {
            group_id
            for group_id in {key.group_id for key in listed}
            if offset.config(group_id).isolation_level is IsolationLevel.READ_COMMITTED
        }
        committed_topics = {key.topic for key in listed if key.group_id in committed_groups}

        def ask(partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
            known = {p: offset.offsets_of(p.topic, p.partition) for p in partitions}
            ends = self._poll.ends(partitions)
            starts = self._poll.starts([p for p in partitions if idle or known[p] is None])
            is_committed = not committed_topics.isdisjoint(p.topic for p in partitions)
            stable = self._poll.ends(partitions, read_committed=True) if is_committed else ends
            return {
                p: LogOffsets(starts.get(p, last.log_start_offset if last else 0), ends[p], stable[p])
                for p, last in known.items()
            }

        return self._ask_leaders(wanted, ask)

    def _ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, _Found]],
    ) -> dict[TopicPartition, _Found]:
        """What those say that have a leader; a topic that is away holds up no other for longer than the timeout."""
        found: dict[TopicPartition, _Found] = {}
        silent: set[int] = set()
        for (topic, leader), of_leader in self._leaders.askable(partitions, _now_ms()).items():
            if leader in silent:
                continue
            try:
                found |= ask(of_leader)
            except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
                problem = f"{type(error).__name__}: {error}"
                self._leaders.unanswered(topic, leader, of_leader, problem, _now_ms())
                self._poll.forget_leaders()
                silent.add(leader)
            else:
                self._leaders.answered(topic, of_leader)
        return found

    def _starts_by_time(
        self, offset: SourceOffset, listed: Collection[SharePartitionRow], now_ms: int
    ) -> Mapping[str, int]:
        """Look up, once, the start offsets of the groups that reset by_duration; those of what is gone are dropped."""
        durations = {
            group_id: offset.config(group_id).auto_offset_reset.duration_ms
            for group_id in {row.key.group_id for row in listed}
            if offset.config(group_id).auto_offset_reset.strategy is OffsetResetStrategy.BY_DURATION
        }
        starts = {start_key(row): offset.starts[start_key(row)] for row in listed if start_key(row) in offset.starts}
        for group_id, duration_ms in durations.items():
            wanted: dict[TopicPartition, tuple[SharePartitionRow, LogOffsets]] = {}
            for row in listed:
                log = offset.offsets_of(row.key.topic, row.key.partition)
                if row.key.group_id == group_id and log is not None and start_key(row) not in starts:
                    wanted[TopicPartition(row.key.topic, row.key.partition)] = row, log
            time_ms = max(0, now_ms - (duration_ms or 0))  # no record is older than 1970
            for partition, found in self._ask_leaders(wanted, functools.partial(self._first_at, time_ms)).items():
                row, log = wanted[partition]
                starts[start_key(row)] = log.log_end_offset if found is None else found
        return starts

    def _first_at(self, time_ms: int, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        return self._poll.at_time(dict.fromkeys(partitions, time_ms))

    def _with_ticks(self, offset: SourceOffset, told: HandOver, safe_ms: int) -> SourceOffset:
        """Tick the keys whose deadline is before the safe time, and after a start every key once."""
        due = {key for key, deadline in told.deadlines.items() if deadline < safe_ms}
        if not self._ticked_all and safe_ms:
            self._ticked_all = True
            due |= {offset.shard_key(key) for key in led(offset, self._plan_tables())}
        if not due:
            return offset
        return replace(offset, tick_keys=tuple(sorted(due)), clock_ms=max(safe_ms, offset.clock_ms))

    def _is_due(self, what: str, now_ms: int, interval_ms: int) -> bool:
        due = now_ms - self._polled_ms[what] >= interval_ms
        if due:
            self._polled_ms[what] = now_ms
        return due


def _now_ms() -> int:
    return int(time.time() * 1000)
