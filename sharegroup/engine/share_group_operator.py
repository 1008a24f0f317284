"""The operator of the group_coordinator query: one share group.

Restored from the operator's state (one JSON text), fed the rows of a micro-batch in their order, dumped again. Sessions
expire at ticks only, whose clock is a time before which all heartbeats have been read: a busy job times nobody out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.engine import rows
from sharegroup.engine.output import Output
from sharegroup.engine.rows import InputRow, RequestRow
from sharegroup.errors import InvalidRequestRow
from sharegroup.group_coordinator.records import (
    GroupState,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TableRecord,
    TopicPartitions,
)
from sharegroup.group_coordinator.share_group import CoordinatorResult, ReleaseMember, ShareGroup
from sharegroup.protocol.request_rows import (
    INITIALIZED,
    RELEASE_MEMBER,
    AnswerableError,
    SharePartitionRequest,
    decode_share_group_request,
)
from sharegroup.protocol.response_rows import ShareGroupResponse


def run_share_group(
    group_id: str, config: GroupConfig, lines: Sequence[str], now_ms: int, state: str | None
) -> tuple[Output, str | None]:
    """One run: the effects, and the state to keep (None: the group is not known)."""
    run = _Run(group_id, config, now_ms, state)
    for row in rows.in_order(lines):
        run.take(row)
    return run.finish()


class _Run:
    def __init__(self, group_id: str, config: GroupConfig, now_ms: int, state: str | None) -> None:
        self._config = config
        content = json.loads(state) if state else None
        self._now_ms = max(now_ms, content["now_ms"] if content else 0)
        self._group_id = group_id
        self._group = (
            ShareGroup.restore(group_id, content["group"])
            if content
            else ShareGroup.load(group_id, (), self._now_ms, config)
        )
        self._output = Output(group_id, self._now_ms)
        self._is_known = content is not None

    def finish(self) -> tuple[Output, str | None]:
        """The effects and the state."""
        self._output.deadline_ms = self._group.next_deadline_ms
        state = json.dumps({"now_ms": self._now_ms, "group": self._group.dump()}, separators=(",", ":"))
        return self._output, state if self._is_known else None

    def take(self, row: InputRow) -> None:
        """One row."""
        if row.request is not None:
            self._output.read_up_to(row.request.kafka_partition, row.request.kafka_offset + 1)
            self._take_request(row.request)
        elif row.kind == rows.LOAD and not self._is_known:
            records = _table_records(json.loads(row.body))
            self._group = ShareGroup.load(self._group_id, records, self._now_ms, self._config)
            self._is_known = True
        elif row.kind == rows.TICK:
            self._apply(self._group.expire(int(row.body)))

    def _take_request(self, row: RequestRow) -> None:
        try:
            request = decode_share_group_request(row.value)
        except AnswerableError as error:
            self._output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
            self._refuse(error)
            return
        except InvalidRequestRow as error:
            self._output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
            return
        if request.type == INITIALIZED:
            self._apply(self._group.initialized(request.initialized, self._now_ms))
        else:
            self._apply(self._group.heartbeat(request, self._now_ms, self._config))

    def _apply(self, result: CoordinatorResult) -> None:
        self._group.apply(result)
        for record in result.records:
            self._is_known = True
            self._output.append(*_table_row(record))
        for release in result.releases:
            self._output.requests += _release_rows(release)
        if result.response is not None and result.response.reply_to:
            self._output.responses.append(result.response._asdict())

    def _refuse(self, error: AnswerableError) -> None:
        known = error.row
        if known["reply_to"]:
            response = ShareGroupResponse(
                str(known.get("type", "")),
                known["id"],
                known["reply_to"],
                str(known.get("group_id", "")),
                str(known.get("member_id", "")),
                int(error.code),
                error.message,
            )
            self._output.responses.append(response._asdict())


def _release_rows(release: ReleaseMember) -> Iterable[tuple[str, str]]:
    """One request row for each share-partition; the same release gives the same ids."""
    for topic, partitions in sorted(release.topics.items()):
        for partition in partitions:
            request = SharePartitionRequest(
                RELEASE_MEMBER,
                f"release-{release.member_id}-{release.member_epoch}",
                release.group_id,
                topic,
                partition,
                release.member_id,
                release.member_epoch,
            )
            yield request.kafka_key.decode(), request.encode().decode()


def _table_row(record: TableRecord) -> tuple[str, dict[str, Any]]:
    """(table, row) of a record, in the form of the table's columns."""
    if isinstance(record, ShareGroupRecord):
        return "share_groups", {**record._asdict(), "group_state": record.group_state.value}
    if isinstance(record, SharePartitionRecord):
        return "share_partitions", {**record._asdict(), "status": record.status.value}
    row = record._asdict()
    if row.pop("is_tombstone"):
        row["_deleted"] = True
    row.pop("previous_member_epoch")
    row["subscribed_topic_names"] = list(record.subscribed_topic_names)
    row["assignment"] = [{"topic": topic, "partitions": list(partitions)} for topic, partitions in record.assignment]
    return "share_group_members", row


def _table_records(tables: dict[str, list[dict[str, Any]]]) -> list[TableRecord]:
    """The records of a group's table rows: the inverse of `_table_row`."""
    records: list[TableRecord] = [
        ShareGroupRecord(row["group_id"], row["group_epoch"], row["assignment_epoch"], GroupState(row["group_state"]))
        for row in tables.get("share_groups", ())
    ]
    records += [
        SharePartitionRecord(**{**row, "status": SharePartitionStatus(row["status"])})
        for row in tables.get("share_partitions", ())
    ]
    records += [
        ShareGroupMemberRecord(
            **{
                **row,
                "subscribed_topic_names": tuple(row["subscribed_topic_names"]),
                "assignment": tuple(
                    TopicPartitions(item["topic"], tuple(item["partitions"])) for item in row["assignment"]
                ),
            }
        )
        for row in tables.get("share_group_members", ())
    ]
    return records
