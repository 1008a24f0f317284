"""`share_groups_ticks`: the Python streaming source beside the request topic of the group_coordinator query.

With an empty checkpoint its first batch loads every group from the tables; after that it only ticks groups whose
deadline (a member's session) is due. Nothing due: no rows, and Spark runs no batch.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.core.operators import rows
from sharegroup.job.clock.hand_over_file import HandOverFileReader
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
    """The offset JSON: `versions` of the tables that were loaded (empty before), and the keys to tick at `clock_ms`.

    Where many keys are ticked at once the offset that says so is followed by one that says nothing: Spark writes the
    newest one again with each batch that brings only requests.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        set_up_log(logging.WARNING, logging.ERROR)  # a process of its own; kafka-python warns of each repeated request
        self._options, self._local_ms = options, steady_ms
        self._tables = PinnedGroups(options["tables"], options["storage_options"])
        self._hand_over = HandOverFileReader(options["hand_over"])
        self._clock = RequestClock(LogPoll(options["kafka"]), options["requests_topic"], options["idle_poll_ms"])
        self._ticked_all = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset of an empty checkpoint: no group is loaded yet."""
        return {"seq": 0, "versions": {}, "tick_keys": [], "clock_ms": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[str, str]], dict[str, Any]]:
        """What is new after `start`; an equal offset and no rows if nothing is."""
        versions = start["versions"] or self._tables.newest_versions()
        try:
            due, clock_ms = self._due(bool(start["versions"]))
            self._clock.outage.ended()
        except KafkaError as error:
            self._clock.outage.began(error)
            time.sleep(self._options["block_ms"] / 1000)  # brokers that are away are not asked without a pause
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
        """The rows of a batch, from its two offsets alone."""
        if start == end:
            return iter(())
        found = []
        if not start["versions"]:
            for group_id, tables in sorted(self._tables.groups(end["versions"]).items()):
                found.append((group_id, rows.encode(rows.LOAD, json.dumps(tables, default=str))))
        found += [(key, rows.encode(rows.TICK, str(end["clock_ms"]))) for key in unpack(end["tick_keys"])]
        return iter(found)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's, for what may be forgotten: nothing is kept here."""

    def _due(self, is_loaded: bool) -> tuple[list[str], int]:
        """The groups to tick and the clock; waits for a deadline or a request, which Spark's Kafka source brings."""
        block_ms = self._options["block_ms"]
        waiting = Waiting(block_ms if is_loaded else 0)
        while True:
            now_ms, told = self._local_ms(), self._hand_over.read()
            pending, read_ms = self._clock.observe(now_ms, told.positions)
            safe_ms = told.brokers_ms(read_ms) if read_ms else 0
            due = set(told.deadlines.due(safe_ms))
            if not self._ticked_all and safe_ms:
                self._ticked_all = True
                due |= set(
                    self._tables.groups(self._tables.newest_versions())
                )  # those of the first start may be cleaned up by now
            wait_ms = waiting.next_ms(told.brokers_ms(now_ms), told.deadlines.first_ms, block_ms)
            if due or pending or not wait_ms or self._clock.wait(told.positions, wait_ms):
                return sorted(due), safe_ms
