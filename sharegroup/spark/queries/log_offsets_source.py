"""`kafka_log_offsets`: the Python streaming source beside the request topic of the share_partition query.

It says which share-partitions to lead (rows of the `share_partitions` table, with the state to load), how far their
logs reach, which topics are no more, and when a key's deadline is due. Nothing new: no rows, and Spark runs no batch.
It runs in a Python worker of the driver, apart from the driver's own Python; `readBetweenOffsets` of a batch that is
run again runs on an executor. What it says is `LogOffsetsPlanner`'s to decide: here it waits, and reads the clock.

The clock of a tick is a *safe* time: all requests appended before it have been read by committed batches. So a lock
never expires while an acknowledgement that was in time is still unread, however long the backlog. It is the brokers'
time, which the driver hands over.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.job.clock.hand_over import HandOver
from sharegroup.job.clock.hand_over_file import HandOverFileReader
from sharegroup.job.clock.request_clock import RequestClock, Waiting
from sharegroup.job.clock.unread_requests import LingerRules
from sharegroup.job.clock.wake import Requests, Wake
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.job.planning.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.spark.log_set_up import set_up_log
from sharegroup.storage.following.config_poll import ConfigPoll
from sharegroup.storage.following.pinned_tables import PinnedTables

SOURCE_NAME = "kafka_log_offsets"
#: How often the `share_partitions` table is looked at while nobody waits for records.
_TABLE_POLL_MS = 500
#: So many rows are a start, or the load of many groups.
_LARGE_LOAD = 1_000
READER = f"{__name__}:LogOffsetsReader"
SOURCE_SCHEMA = "shard_key STRING, row STRING"


class LogOffsetsReader(SimpleDataSourceStreamReader):
    """The planner's decisions, as Spark asks a streaming source for them. `options` is the JSON that
    `share_partition_query` makes."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        set_up_log(logging.WARNING, logging.ERROR)  # a process of its own; kafka-python warns of each repeated request
        self._options, self._local_ms = options, steady_ms
        self._tables = PinnedTables(options["tables"], options["storage_options"])
        self._hand_over = HandOverFileReader(options["hand_over"])
        configs = ConfigPoll(options["job_config"], options["tables_path"], options["storage_options"])
        settings = PlannerSettings(**{name: options[name] for name in PlannerSettings.__dataclass_fields__})
        poll = LogPoll(options["kafka"])
        self._planner = LogOffsetsPlanner(self._tables, poll, configs, settings)
        rules = LingerRules(options["shards"], options["linger_ms"])
        self._clock = RequestClock(poll, options["requests_topic"], options["idle_poll_ms"], rules)
        self._last: tuple[dict[str, Any], SourceOffset] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing read, nothing led: the first batch loads everything from the tables."""
        return SourceOffset().to_json()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str, str]], dict[str, Any]]:
        """What is new after `start`; an equal offset and no rows if nothing is."""
        before = self._offset_of(start)
        try:
            after = self._wait_for_news(before)
        except KafkaError:
            time.sleep(self._options["block_ms"] / 1000)  # brokers that are away are not asked without a pause
            return iter(()), start
        if after is None:
            return iter(()), start
        rows, end = list(rows_between(before, after, self._tables.states)), after.to_json()
        self._last = end, after
        if len(rows) >= _LARGE_LOAD:
            gc.freeze()  # what is known of 100,000 share-partitions stays, and takes half a second to look through
        return iter(rows), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[str, str]]:  # noqa: N802
        """The rows of a batch once more; looks at nothing but the two offsets and the pinned table version."""
        return iter(list(rows_between(SourceOffset.from_json(start), SourceOffset.from_json(end), self._tables.states)))

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's, for what may be forgotten: nothing is kept here."""

    def _offset_of(self, start: dict[str, Any]) -> SourceOffset:
        """Spark gives the newest offset back at each look: it is not read from its JSON each time."""
        if self._last is None or self._last[0] != start:
            self._last = start, SourceOffset.from_json(start)
        return self._last[1]

    def _wait_for_news(self, before: SourceOffset) -> SourceOffset | None:
        """The next offset; None if nothing is new, or only requests are, which Spark's Kafka source brings.

        While the brokers are away, what the tables say is news all the same: the first batch loads what there is to
        load, before Spark's Kafka source may bring requests for it. Raises KafkaError if there is no such news.
        """
        waiting, requests = Waiting(self._options["block_ms"]), Requests()
        while True:
            now_ms, told = self._local_ms(), self._hand_over.read()
            brokers_ms = told.brokers_ms(now_ms)
            wake = Wake.of(told, brokers_ms)
            problem: KafkaError | None = None
            try:
                if requests.must_look(wake):
                    requests = self._look(requests, wake, told, now_ms)
                    self._clock.outage.ended()
            except KafkaError as error:
                self._clock.outage.began(error)
                problem = error
            topics = self._clock.topics_of_unread() if requests.are_wanted else set()
            after = self._planner.next(before, told, topics, requests.safe_ms, now_ms)
            if after is not None:
                return after
            if problem is not None:
                raise problem
            slice_ms = self._options["poll_ms"] if told.waiting else _TABLE_POLL_MS
            wait_ms = waiting.next_ms(brokers_ms, wake.deadline_ms, slice_ms)
            if requests.are_wanted or not wait_ms:
                return None
            requests = requests._replace(are_wanted=self._clock.wait(told.positions, wait_ms, told.waiting))

    def _look(self, before: Requests, wake: Wake, told: HandOver, now_ms: int) -> Requests:
        """What is unread is brought when it may not linger, and for a tick, which wants to know what was in time."""
        are_unread, read_ms = self._clock.observe(now_ms, told.positions)
        safe_ms = told.brokers_ms(read_ms) if read_ms else 0
        are_wanted = are_unread and (self._clock.are_due(told.positions, told.waiting) or wake.is_due)
        return Requests(before.are_wanted or are_wanted, safe_ms)
