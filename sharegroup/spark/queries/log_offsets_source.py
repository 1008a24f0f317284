"""`kafka_log_offsets`: the Python streaming source beside the request topic of the share_partition query.

Its rows contain the share-partitions to manage (rows of the `share_partitions` table, with the state to load), the end
offsets of their logs, and deleted topics. Rows that are *ticks* carry the time to shards whose deadline has passed.
Without changes the source returns no rows, and Spark runs no batch. The source runs in a Python worker of the driver,
separate from the driver's own Python; `readBetweenOffsets` of a repeated batch runs on an executor. `LogOffsetsPlanner`
decides which rows are sent; this module waits and reads the clock.

The time of a tick is a *safe time*: all requests appended before it have been read by committed batches. A lock
therefore never expires while an acknowledgement that was appended in time is unread, however long the backlog is. The
safe time is a time of the brokers' clocks. The driver passes the brokers' time to this source in the handover file.
"""

import gc
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.job.clock.handover import Handover
from sharegroup.job.clock.handover_file import HandoverFileReader
from sharegroup.job.clock.request_clock import RequestClock, Waiting
from sharegroup.job.clock.unread_requests import LingerRules
from sharegroup.job.clock.wake import RequestTopicState, Wake
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.job.planning.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.spark.log_set_up import set_up_log
from sharegroup.storage.following.config_poll import ConfigPoll
from sharegroup.storage.following.pinned_tables import PinnedTables

SOURCE_NAME = "kafka_log_offsets"
#: The poll interval of the `share_partitions` table while no member waits for records, in ms.
_TABLE_POLL_MS = 500
#: A batch with at least this many rows is large. Such a batch occurs at a start, or when many groups are loaded.
_LARGE_LOAD = 1_000
READER = f"{__name__}:LogOffsetsReader"
SOURCE_SCHEMA = "shard_key STRING, row STRING"


class LogOffsetsReader(SimpleDataSourceStreamReader):
    """Reads the streaming source `kafka_log_offsets`: states to load, log end offsets, deleted topics and ticks.

    `options` comes from `share_partition_query.source_options`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        set_up_log(logging.WARNING, logging.ERROR)  # its own process; kafka-python warns about each repeated request
        self._options, self._local_ms = options, steady_ms
        self._tables = PinnedTables(options["tables"], options["storage_options"])
        self._handover = HandoverFileReader(options["hand_over"])
        configs = ConfigPoll(options["job_config"], options["tables_path"], options["storage_options"])
        settings = PlannerSettings(**{name: options[name] for name in PlannerSettings.__dataclass_fields__})
        poll = LogPoll(options["kafka"])
        self._planner = LogOffsetsPlanner(self._tables, poll, configs, settings)
        rules = LingerRules(options["shards"], options["linger_ms"])
        self._clock = RequestClock(poll, options["requests_topic"], options["idle_poll_ms"], rules)
        self._last: tuple[dict[str, Any], SourceOffset] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which nothing is loaded; the first batch loads everything from the tables."""
        return SourceOffset().to_json()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str, str]], dict[str, Any]]:
        """Return the changes since `start` as rows, and the next offset.

        Without changes, return no rows and `start`.
        """
        before = self._offset_of(start)
        try:
            after = self._wait_for_changes(before)
        except KafkaError:
            time.sleep(self._options["block_ms"] / 1000)  # a pause between requests to unavailable brokers
            return iter(()), start
        if after is None:
            return iter(()), start
        rows, end = list(rows_between(before, after, self._tables.states)), after.to_json()
        self._last = end, after
        if len(rows) >= _LARGE_LOAD:
            gc.freeze()  # the state of 100,000 share-partitions stays and would slow a collection by half a second
        return iter(rows), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[str, str]]:  # noqa: N802
        """Return the rows of a batch again, from its two offsets and the table version that the end offset names."""
        return iter(list(rows_between(SourceOffset.from_json(start), SourceOffset.from_json(end), self._tables.states)))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark reports offsets that it no longer needs, and nothing is stored here."""

    def _offset_of(self, start: dict[str, Any]) -> SourceOffset:
        """Return the parsed offset. The last offset is cached, because Spark passes the newest one to each poll."""
        if self._last is None or self._last[0] != start:
            self._last = start, SourceOffset.from_json(start)
        return self._last[1]

    def _wait_for_changes(self, before: SourceOffset) -> SourceOffset | None:
        """Wait for changes and return the next offset; None if there are no changes within a time limit.

        The result is also None if only requests have arrived, because Spark's Kafka source reads them. Changes of the
        tables are returned even while the brokers are unavailable. The first batch therefore loads the state before
        Spark's Kafka source can deliver requests for it. Raises KafkaError if the brokers are unavailable and the
        tables have not changed.
        """
        waiting, requests = Waiting(self._options["block_ms"]), RequestTopicState()
        while True:
            now_ms, handover = self._local_ms(), self._handover.read()
            brokers_ms = handover.brokers_ms(now_ms)
            wake = Wake.from_handover(handover, brokers_ms)
            problem: KafkaError | None = None
            try:
                if requests.must_fetch_end(wake):
                    requests = self._poll(requests, wake, handover, now_ms)
                    self._clock.outage.report_success()
            except KafkaError as error:
                self._clock.outage.report_failure(error)
                problem = error
            topics = self._clock.pop_unread_topics() if requests.is_due else set()
            after = self._planner.next_offset(before, handover, topics, requests.safe_ms, now_ms)
            if after is not None:
                return after
            if problem is not None:
                raise problem
            slice_ms = self._options["poll_ms"] if handover.waiting else _TABLE_POLL_MS
            wait_ms = waiting.next_ms(brokers_ms, wake.deadline_ms, slice_ms)
            if requests.is_due or not wait_ms:
                return None
            requests = requests._replace(is_due=self._clock.wait(handover.positions, wait_ms, handover.waiting))

    def _poll(self, before: RequestTopicState, wake: Wake, handover: Handover, now_ms: int) -> RequestTopicState:
        """Poll the request topic. Return whether it has requests that must be processed now, and the new safe time.

        Unread requests must be processed now if one of them has waited long enough for others (`LingerRules`). They
        must also be processed now if a tick is due, because all earlier requests must be read before a tick. If
        `before.is_due` is True, the result's `is_due` is also True.
        """
        are_unread, read_ms = self._clock.observe(now_ms, handover.positions)
        safe_ms = handover.brokers_ms(read_ms) if read_ms else 0
        are_wanted = are_unread and (self._clock.is_due(handover.positions, handover.waiting) or wake.is_due)
        return RequestTopicState(before.is_due or are_wanted, safe_ms)
