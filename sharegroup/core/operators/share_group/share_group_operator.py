"""The operator of the group_coordinator query: one share group.

The operator is restored from its state (one JSON text), processes the rows of a micro-batch in order, and is dumped
again. Sessions expire only at ticks. All heartbeats that were appended before the time of a tick have been read by
then, so no session expires only because the job is slow.

A member that leaves can join again in the next micro-batch at the earliest. The reason is the row that the batch sends
to release the member's records. After a failure, the job sends the rows of a batch again. If the same batch also
responded to the join, the member could already have acquired records again when the row is sent for the second time.
The row would then release these records.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sharegroup.config import Config, GroupConfig
from sharegroup.core.group_coordinator.heartbeat_rules import JOIN_GROUP_EPOCH
from sharegroup.core.group_coordinator.records import ShareGroupConfigRecord, ShareGroupMemberRecord, TableRecord
from sharegroup.core.group_coordinator.results import ConfigureGroup, CoordinatorResult, FenceMember, ReleaseMember
from sharegroup.core.group_coordinator.share_group import ShareGroup
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.rows import InputRow, RequestRow
from sharegroup.core.operators.share_group.group_rows import altered_row, table_records, table_row
from sharegroup.core.operators.share_group.pending_heartbeats import PendingHeartbeats
from sharegroup.errors import ErrorCode, InvalidRequestRow
from sharegroup.protocol.json_text import from_json, to_json
from sharegroup.protocol.rows.broadcasts import MemberLeftBroadcast
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.response_rows import reject_share_group_request
from sharegroup.protocol.rows.row_fields import InvalidFieldError
from sharegroup.protocol.rows.share_group_requests import (
    AlterConfigsRequest,
    DeletedNotice,
    HeartbeatRequest,
    InitializedNotice,
    ShareGroupRequest,
    TopicDeletedNotice,
    decode_share_group_request,
)
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import ConfigureRequest, FenceMemberRequest, ReleaseMemberRequest

#: How long the epochs of a deleted group are kept, in ms, because delayed requests of its members may still arrive.
DELETED_GROUP_MS = 3_600_000


class ShareGroupOperator:
    """The operator of one group in one micro-batch (`core.operators.operator`). `job` is the job's configuration."""

    def __init__(self, group_id: str, job: Config, state: str | None) -> None:
        self._group_id, self._job = group_id, job
        self._restored: dict[str, Any] | None = from_json(state) if state else None
        content = self._restored or {}
        self._last_ms: int = content.get("now_ms", 0)
        self._now_ms: int = self._last_ms
        self._parked = PendingHeartbeats(content.get("parked", {}))
        #: The members whose records this batch releases. Their later heartbeats are deferred to the next batch.
        self._released: set[str] = set()
        self._deferred = [RequestRow(*row) for row in content.get("deferred", ())]
        self._output = Output(group_id, 0)
        self._group = ShareGroup.restore(group_id, content["group"]) if content else self._loaded(())
        self._config = self._config_in_force(self._group.metadata.configs)

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Process the rows of a micro-batch and return the effects."""
        batch = rows.sort_rows(lines)
        self._now_ms = rows.latest_ms(batch, now_ms)
        self._output = Output(self._group_id, self._now_ms)
        deferred, self._deferred = self._deferred, []
        for request_row in deferred:
            self._handle_request(request_row)
        for row in batch:
            self._process(row)
        self._apply(self._group.update_assignment(self._now_ms, self._config))
        for request in self._parked.pop_ready(self._now_ms, self._group.awaits_assignment):
            self._apply(self._group.heartbeat(request, self._now_ms, self._config))
        self._output.deadline_ms = self._next_deadline_ms()
        return self._output

    def dump(self) -> str | None:
        """Return the new state of the group, or None if it has neither an epoch nor configs."""
        if not (self._group.metadata.group_epoch or self._group.metadata.configs):
            return None
        content = {
            "now_ms": self._now_ms,
            "group": self._group.dump(),
            "parked": self._parked.dump(),
            "deferred": self._deferred,
        }
        return to_json(content)

    def _next_deadline_ms(self) -> int | None:
        if self._deferred:
            return self._now_ms
        if self._group.is_deleted and self._group.metadata.group_epoch:
            return self._now_ms + DELETED_GROUP_MS
        deadlines = (
            self._group.next_deadline_ms,
            self._group.assignment_deadline_ms(self._config),
            self._parked.next_deadline_ms(),
        )
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)

    def _process(self, row: InputRow) -> None:
        """Apply an input row: a request, the group's rows from the tables, or a tick.

        The rows from the tables are ignored if the operator was restored from a state.
        """
        if row.request is not None:
            self._output.mark_read(row.request)
            if row.request.value != PROBE:
                self._handle_request(row.request)
        elif row.kind == rows.LOAD and self._restored is None:
            self._group = self._loaded(table_records(from_json(row.body)))
        elif row.kind == rows.TICK:
            self._tick(int(row.body))

    def _tick(self, clock_ms: int) -> None:
        self._apply(self._group.expire(clock_ms))
        if self._group.is_deleted and clock_ms >= self._last_ms + DELETED_GROUP_MS:
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
        """Return the group's config from the job's configuration, overridden by values that requests have set."""
        return (
            self._job.effective_group_config(self._group_id, configs).config
            if configs
            else self._job.group_config(self._group_id)
        )

    def _handle_request(self, row: RequestRow) -> None:
        try:
            request = decode_share_group_request(row.value)
        except InvalidFieldError as error:
            self._output.record_invalid(row, str(error))
            self._output.respond(reject_share_group_request(error.row, error.code, error.message))
            return
        except InvalidRequestRow as error:
            self._output.record_invalid(row, str(error))
            return
        if isinstance(request, HeartbeatRequest):
            self._heartbeat(request, row)
        else:
            self._apply(self._handle(request, row.append_ms), row.append_ms)
            if isinstance(request, AlterConfigsRequest):
                self._config = self._config_in_force(self._group.metadata.configs)

    def _handle(self, request: ShareGroupRequest, append_ms: int) -> CoordinatorResult:
        match request:
            case HeartbeatRequest():
                return self._group.heartbeat(request, self._now_ms, self._config, append_ms)
            case InitializedNotice():
                return self._group.handle_initialized(request.initialized, self._now_ms)
            case DeletedNotice():
                return self._group.handle_deleted(request.deleted)
            case TopicDeletedNotice():
                return self._group.handle_topic_deleted(request.topic_ids, self._now_ms)
            case _:
                return self._group.administer(request, self._job, append_ms, self._now_ms)

    def _heartbeat(self, request: HeartbeatRequest, row: RequestRow) -> None:
        """Apply a heartbeat, and respond immediately or when the member's assignment is complete.

        If the member's records were released in this batch, the heartbeat is deferred to the next batch. Otherwise a
        repetition of the batch could release records that the member acquires after it has joined again.
        """
        if request.member_id in self._released:
            self._deferred.append(row)
            return
        result = self._handle(request, row.append_ms)
        self._change(result, row.append_ms)
        assert result.response is not None
        if not result.response.error_code:
            assert isinstance(result.response, HeartbeatResponse)
            member_id = result.response.member_id  # a static member need not send its id
            self._parked.discard(member_id)
            if self._group.awaits_assignment(member_id) and request.member_epoch >= JOIN_GROUP_EPOCH:
                self._parked.add(member_id, row.value, row.append_ms)
                return
        self._output.respond(result.response)

    def _apply(self, result: CoordinatorResult, append_ms: int | None = None) -> None:
        self._change(result, self._now_ms if append_ms is None else append_ms)
        if result.response is not None:
            self._output.respond(result.response)

    def _change(self, result: CoordinatorResult, append_ms: int) -> None:
        """Apply the changes of a request that was appended at `append_ms`, and send the resulting requests.

        These requests go to share-partitions. A job that was replaced may send them late. Requests that change configs
        therefore contain `append_ms`, so that a share-partition ignores them if it has already applied a later change.
        """
        self._group.apply(result)
        for record in result.records:
            self._output.append_row(*table_row(record))
            if isinstance(record, ShareGroupMemberRecord) and record.is_tombstone:
                self._reject_pending(record.member_id)
        if any(isinstance(record, ShareGroupConfigRecord) for record in result.records):
            self._output.append_row(*altered_row(self._group_id, append_ms))
        for release in result.releases:
            for request in _releases(release):
                self._output.send_request(request)
                self._released.add(release.member_id)
            self._output.broadcast(MemberLeftBroadcast(release.group_id, release.member_id, release.member_epoch))
        if result.fence is not None:
            for fencing in _fences(result.fence):
                self._output.send_request(fencing)
        if result.configure is not None:
            for configuring in _configures(result.configure, append_ms):
                self._output.send_request(configuring)

    def _reject_pending(self, member_id: str) -> None:
        """Reject the pending heartbeat of a removed member, because processing it would add the member again."""
        row = self._parked.pop(member_id)
        if row is not None:
            message = f"Member {member_id} was removed from group {self._group_id} before its assignment was ready."
            self._output.respond(reject_share_group_request(from_json(row), ErrorCode.UNKNOWN_MEMBER_ID, message))


def _releases(release: ReleaseMember) -> Iterator[ReleaseMemberRequest]:
    """Yield requests to release the member's records, one per share-partition. A repeated batch yields the same ids."""
    id_ = f"release-{release.member_id}-{release.member_epoch}"
    for share_partition in _share_partitions(release):
        yield ReleaseMemberRequest(id_, *share_partition, release.member_id, release.member_epoch)


def _fences(fence: FenceMember) -> Iterator[FenceMemberRequest]:
    """Yield requests to fence the member's earlier processes, one per share-partition.

    Each share-partition then rejects requests of these processes. A repeated batch yields the same ids.
    """
    id_ = f"fence-{fence.member_id}-{fence.incarnation_id}"
    for share_partition in _share_partitions(fence):
        yield FenceMemberRequest(
            id_, *share_partition, fence.member_id, incarnation_id=fence.incarnation_id, joined_ms=fence.joined_ms
        )


def _configures(configure: ConfigureGroup, altered_ms: int) -> Iterator[ConfigureRequest]:
    """Yield requests to set the group's config, one per share-partition. A repeated batch yields the same ids."""
    id_, config = f"configure-{configure.id}", configure.config.to_json()
    for share_partition in _share_partitions(configure):
        yield ConfigureRequest(id_, *share_partition, "", config=config, altered_ms=altered_ms)


def _share_partitions(about: ReleaseMember | FenceMember | ConfigureGroup) -> Iterator[tuple[str, str, str, int]]:
    """Yield (group id, topic, topic id, partition) for each share-partition in `about`."""
    for topic, topic_id, partitions in about.topics:
        for partition in partitions:
            yield about.group_id, topic, topic_id, partition
