"""`share_groups_ticks`: the Python streaming source beside the request topic of the group_coordinator query.

With an empty checkpoint, its first batch loads every group from the tables. The source also sends ticks (rows with the
time): one to every group after each start, and later to groups in which a deadline has passed, for example the end of a
member's session. If no group needs a tick, the source returns no rows, and Spark runs no batch.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.core.operators import rows
from sharegroup.job.clock.handover_file import HandoverFileReader
from sharegroup.job.clock.request_clock import RequestClock, Waiting
from sharegroup.job.knowledge.source_offset import pack, unpack
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.spark.log_set_up import set_up_log
from sharegroup.storage.following.pinned_groups import PinnedGroups

SOURCE_NAME = "share_groups_ticks"
SOURCE_SCHEMA = "group_id STRING, row STRING"
READER = f"{__name__}:ShareGroupsReader"


class ShareGroupsReader(SimpleDataSourceStreamReader):
    """The streaming source `share_groups_ticks`. It returns rows that load all groups once, and ticks.

    Its offset contains the `versions` of the tables that the groups were loaded from (empty before the load), and
    `tick_keys`, the groups that get a tick with the time `clock_ms`. Spark writes the newest offset again with each
    batch that has only requests. An offset with many keys is therefore followed by a small offset without keys.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        set_up_log(logging.WARNING, logging.ERROR)  # its own process; kafka-python warns about each repeated request
        self._options, self._local_ms = options, steady_ms
        self._tables = PinnedGroups(options["tables"], options["storage_options"])
        self._handover = HandoverFileReader(options["hand_over"])
        self._clock = RequestClock(LogPoll(options["kafka"]), options["requests_topic"], options["idle_poll_ms"])
        self._ticked_all = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of an empty checkpoint, at which no group is loaded."""
        return {"seq": 0, "versions": {}, "tick_keys": [], "clock_ms": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str, str]], dict[str, Any]]:
        """Return the rows since `start`, and the next offset.

        If there are no rows, the next offset is `start`, except after an offset with many keys (see the class).
        """
        versions = start["versions"] or self._tables.newest_versions()
        try:
            due, clock_ms = self._due(bool(start["versions"]))
            self._clock.outage.report_success()
        except KafkaError as error:
            self._clock.outage.report_failure(error)
            time.sleep(self._options["block_ms"] / 1000)  # a pause between requests to unavailable brokers
            due, clock_ms = [], 0
        ticked = pack(due)
        if versions == start["versions"] and not due and not isinstance(start["tick_keys"], str):
            return iter(()), start
        end = {
            "seq": start["seq"] + 1,
            "versions": versions,
            "tick_keys": ticked,
            "clock_ms": clock_ms if due else start["clock_ms"],
        }
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[str, str]]:  # noqa: N802
        """Return the rows of a batch, from its two offsets and the table versions that the end offset names."""
        if start == end:
            return iter(())
        found = []
        if not start["versions"]:
            for group_id, tables in sorted(self._tables.groups(end["versions"]).items()):
                found.append((group_id, rows.encode_row(rows.LOAD, json.dumps(tables, default=str))))
        found += [(key, rows.encode_row(rows.TICK, str(end["clock_ms"]))) for key in unpack(end["tick_keys"])]
        return iter(found)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark reports offsets that it no longer needs, and nothing is stored here."""

    def _due(self, is_loaded: bool) -> tuple[list[str], int]:
        """Wait for a deadline, a request or a time limit. Return the groups that need a tick, and the ticks' time.

        The list is empty if no group needs a tick, for example after a request, which Spark's Kafka source reads. Once
        after each start, all groups need a tick, because their deadlines are not known. If `is_loaded` is False, the
        method does not wait.
        """
        block_ms = self._options["block_ms"]
        waiting = Waiting(block_ms if is_loaded else 0)
        while True:
            now_ms, handover = self._local_ms(), self._handover.read()
            pending, read_ms = self._clock.observe(now_ms, handover.positions)
            safe_ms = handover.brokers_ms(read_ms) if read_ms else 0
            due = set(handover.deadlines.due_keys(safe_ms))
            if not self._ticked_all and safe_ms:
                self._ticked_all = True
                # Deadlines from before this start are unknown, so every group gets a tick, for example to be deleted.
                due |= set(self._tables.groups(self._tables.newest_versions()))
            wait_ms = waiting.next_ms(handover.brokers_ms(now_ms), handover.deadlines.first_ms, block_ms)
            if due or pending or not wait_ms or self._clock.wait(handover.positions, wait_ms):
                return sorted(due), safe_ms
