"""The operator of the group_coordinator query: one share group.

Restored from the operator's state (one JSON text), fed the rows of a micro-batch in their order, dumped again. Sessions
expire at ticks only, whose clock is a time before which all heartbeats have been read: a busy job times nobody out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from sharegroup.config import Config, GroupConfig
from sharegroup.engine import rows
from sharegroup.engine.group_rows import table_records, table_row
from sharegroup.engine.output import Output
from sharegroup.engine.parked_heartbeats import ParkedHeartbeats
from sharegroup.engine.rows import InputRow, RequestRow
from sharegroup.errors import InvalidRequestRow
from sharegroup.group_coordinator.records import ShareGroupConfigRecord, TableRecord
from sharegroup.group_coordinator.results import Configure, CoordinatorResult, ReleaseMember
from sharegroup.group_coordinator.share_group import ShareGroup
from sharegroup.protocol.request_rows import (
    CONFIGURE,
    DELETED,
    HEARTBEAT,
    INITIALIZED,
    RELEASE_MEMBER,
    TOPIC_DELETED,
    AnswerableError,
    ShareGroupRequest,
    SharePartitionRequest,
    decode_share_group_request,
)
from sharegroup.protocol.response_rows import MEMBER_LEFT, Broadcast, ShareGroupResponse, encode_response
from sharegroup.protocol.row_fields import said_back

#: The epochs of a deleted group are remembered for so long: requests of its time may still come.
FORGET_MS = 3_600_000


def run_share_group(
    group_id: str, job: Config, lines: Sequence[str], now_ms: int, state: str | None
) -> tuple[Output, str | None]:
    """One run: the effects, and the state to keep (None: the group is not known)."""
    run = _Run(group_id, job, now_ms, state)
    for row in rows.in_order(lines):
        run.take(row)
    return run.finish()


class _Run:
    def __init__(self, group_id: str, job: Config, now_ms: int, state: str | None) -> None:
        self._job = job
        content = json.loads(state) if state else None
        self._last_ms: int = content["now_ms"] if content else 0
        self._now_ms = max(now_ms, self._last_ms)
        self._group_id = group_id
        self._group = ShareGroup.restore(group_id, content["group"]) if content else self._loaded([])
        self._config = self._config_in_force(self._group.metadata.configs)
        self._parked = ParkedHeartbeats(content.get("parked", {}) if content else {})
        self._output = Output(group_id, self._now_ms)
        self._has_state = content is not None

    def finish(self) -> tuple[Output, str | None]:
        """The effects and the state."""
        for request in self._parked.take_ready(self._now_ms, self._group.is_initializing):
            self._apply(self._group.heartbeat(request, self._now_ms, self._config))
        deadlines = (self._group.next_deadline_ms, self._parked.next_deadline_ms())
        self._output.deadline_ms = min((deadline for deadline in deadlines if deadline is not None), default=None)
        if self._group.is_deleted and self._group.metadata.group_epoch:
            self._output.deadline_ms = self._now_ms + FORGET_MS
        if not (self._group.metadata.group_epoch or self._group.metadata.configs):
            return self._output, None
        content = {"now_ms": self._now_ms, "group": self._group.dump(), "parked": self._parked.dump()}
        return self._output, json.dumps(content, separators=(",", ":"))

    def take(self, row: InputRow) -> None:
        """Apply an input row: a request, the group's rows from the tables, or a tick."""
        if row.request is not None:
            self._output.read_up_to(row.request.kafka_partition, row.request.kafka_offset + 1)
            self._take_request(row.request)
        elif row.kind == rows.LOAD and not self._has_state:
            self._group = self._loaded(table_records(json.loads(row.body)))
        elif row.kind == rows.TICK:
            self._tick(int(row.body))

    def _tick(self, clock_ms: int) -> None:
        self._apply(self._group.expire(clock_ms))
        if self._group.is_deleted and clock_ms >= self._last_ms + FORGET_MS:
            configs = self._group.metadata.configs
            self._group = self._loaded(
                [ShareGroupConfigRecord(self._group_id, name, value) for name, value in configs.items()]
            )

    def _loaded(self, records: Sequence[TableRecord]) -> ShareGroup:
        configs = {
            record.config_name: record.config_value
            for record in records
            if isinstance(record, ShareGroupConfigRecord) and record.config_value is not None
        }
        self._config = self._config_in_force(configs)
        return ShareGroup.load(self._group_id, records, self._now_ms, self._config)

    def _config_in_force(self, configs: Mapping[str, str]) -> GroupConfig:
        """The file's values, with those that requests have set over them."""
        return (
            self._job.effective(self._group_id, configs).config if configs else self._job.group_config(self._group_id)
        )

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
        if request.type == HEARTBEAT:
            self._heartbeat(request, row)
        elif request.type == INITIALIZED:
            self._apply(self._group.initialized(request.initialized, self._now_ms))
        elif request.type == DELETED:
            self._apply(self._group.deleted(request.deleted))
        elif request.type == TOPIC_DELETED:
            self._apply(self._group.topic_deleted(request.topic_ids, self._now_ms))
        else:
            self._apply(self._group.administer(request, self._job, self._now_ms))
            self._config = self._config_in_force(self._group.metadata.configs)

    def _heartbeat(self, request: ShareGroupRequest, row: RequestRow) -> None:
        """Answered at once, or parked until its assignment is what it should be; what it changes is changed now."""
        result = self._group.heartbeat(request, self._now_ms, self._config)
        self._change(result)
        assert result.response is not None
        if not result.response.error_code:
            self._parked.drop(request.member_id)
            if self._group.is_initializing(request.member_id):
                self._parked.park(request, row.value, row.append_ms)
                return
        self._respond(result.response)

    def _apply(self, result: CoordinatorResult) -> None:
        self._change(result)
        if result.response is not None:
            self._respond(result.response)

    def _change(self, result: CoordinatorResult) -> None:
        self._group.apply(result)
        for record in result.records:
            self._output.append(*table_row(record))
        for release in result.releases:
            self._output.requests += _release_rows(release)
            left = Broadcast(MEMBER_LEFT, release.group_id, release.member_id, release.member_epoch)
            self._output.responses.append(left._asdict())
        if result.configure is not None:
            self._output.requests += _configure_rows(result.configure)

    def _respond(self, response: ShareGroupResponse) -> None:
        if response.reply_to:
            self._output.responses.append(encode_response(response))

    def _refuse(self, error: AnswerableError) -> None:
        known = error.row
        if known["reply_to"]:
            response = ShareGroupResponse(
                said_back(known, "type"),
                known["id"],
                known["reply_to"],
                said_back(known, "group_id"),
                said_back(known, "member_id"),
                int(error.code),
                error.message,
            )
            self._output.responses.append(encode_response(response))


def _release_rows(release: ReleaseMember) -> Iterable[tuple[str, str]]:
    """One request row for each share-partition; the same release gives the same ids."""
    id_ = f"release-{release.member_id}-{release.member_epoch}"
    who = release.member_id, release.member_epoch
    for share_partition in _share_partitions(release):
        yield _request_row(SharePartitionRequest(RELEASE_MEMBER, id_, *share_partition, *who))


def _configure_rows(configure: Configure) -> Iterable[tuple[str, str]]:
    """One request row for each share-partition; the same alteration gives the same ids."""
    id_, config = f"configure-{configure.id}", configure.config.to_json()
    for share_partition in _share_partitions(configure):
        yield _request_row(SharePartitionRequest(CONFIGURE, id_, *share_partition, "", config=config))


def _share_partitions(about: ReleaseMember | Configure) -> Iterable[tuple[str, str, str, int]]:
    """Group, topic, topic id and partition of each that it is about."""
    for topic, topic_id, partitions in about.topics:
        for partition in partitions:
            yield about.group_id, topic, topic_id, partition


def _request_row(request: SharePartitionRequest) -> tuple[str, str]:
    return request.kafka_key.decode(), request.encode().decode()
