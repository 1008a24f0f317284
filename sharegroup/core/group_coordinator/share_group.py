"""One share group: its members, its share-partitions and their assignment (KIP-932, "Group membership").

Theory of operation
-------------------
Handlers and replay. Handlers (`heartbeat`, `administer`, `handle_initialized`, `handle_deleted`,
`handle_topic_deleted`, `expire`, `update_assignment`) return a `CoordinatorResult` and change nothing. `apply` replays
the records of a result.

Epochs. The *group epoch* rises when members, subscriptions, partitions, the set of initialized share-partitions or the
assignor change. When the assignor has run, the *assignment epoch* becomes equal to the group epoch (`target_assignment`
defines the times of runs). A heartbeat runs the assignor if a run is due. After other handlers, and at
`assignment_deadline_ms`, the caller calls `update_assignment`. When all share-partitions of a topic are initialized and
no run is pending, the group epoch rises once, so that members are assigned the whole topic in one step. If a heartbeat
discovers a topic, but changes neither the members nor a subscription, the group epoch already rises at this heartbeat.
The run for that epoch then waits until the topic is initialized, but at most `DISCOVERY_MS`, so that the epoch need not
rise again. It does not wait if a run for another change was already pending.

Reconciliation. Each member moves to the assignment epoch with its own next heartbeat. One step is enough, because
nothing has to be revoked first: records of a share-partition that the member no longer reads stay locked for it, and
it may acknowledge them.

    heartbeat of a new topic        share_partition query            heartbeat
    SharePartition initializing --> writes the initial state ------> SharePartition initialized --> assigned to members
                                    and sends the notice `initialized`

Sessions. `expire` is due at `next_deadline_ms`. `heartbeat` does not expire members, because after a pause of the job
the heartbeats of all members are waiting in the request topic. The caller therefore calls `expire` after it has handled
all requests of a micro-batch. If a member's heartbeat is read after its deadline, but before `expire` is called, the
member stays in the group. A static member (`static_membership`) has its own session timeout, and stays in the group
when it leaves for a restart.

Departures. If a member leaves or times out, the result contains a `ReleaseMember`, which makes the member's acquired
records available. There is one exception: if the member leaves through one gateway while another gateway may rely on
its session, its records stay locked until the locks expire. `ReleaseMember` contains the member's epoch. A member that
joins again has a higher epoch, so a repeated or late `ReleaseMember` has no effect. If an existing member joins with
epoch 0, nothing is released, because the same member id owns the locks.

Topics. Members subscribe to names. Everything else uses topic ids (`discovery`).
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Self

from sharegroup.config import Config, GroupConfig
from sharegroup.core.group_coordinator import dump as dumps
from sharegroup.core.group_coordinator import recovery
from sharegroup.core.group_coordinator.administration import deletion
from sharegroup.core.group_coordinator.administration.group_configs import alter_configs
from sharegroup.core.group_coordinator.administration.member_administration import (
    invoke_consumer_rebalance,
    remove_members,
)
from sharegroup.core.group_coordinator.administration.offset_alteration import alter_offsets
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.discovery import discover_partitions
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.heartbeat_rules import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    check_capacity,
    check_heartbeat,
    check_member_epoch,
    get_member,
)
from sharegroup.core.group_coordinator.records import (
    Assignment,
    GroupState,
    InitializationRecord,
    Record,
    SessionRecord,
    ShareGroupMemberRecord,
    SharePartitionStatus,
    TableRecord,
    TargetAssignmentRecord,
)
from sharegroup.core.group_coordinator.results import (
    CoordinatorResult,
    FenceMember,
    ReleaseMember,
    rejection,
    response_header,
)
from sharegroup.core.group_coordinator.static_membership import (
    NO_INCARNATION,
    check_identity,
    check_incarnation,
    check_join_order,
    resolve_member_id,
    session_timeout_ms,
)
from sharegroup.core.group_coordinator.target_assignment import (
    INITIALIZING_MS,
    is_run_pending,
    next_run_ms,
    update_target_assignment,
)
from sharegroup.errors import RequestError
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    HeartbeatRequest,
    InvokeConsumerRebalanceRequest,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse

__all__ = ["CoordinatorResult", "ReleaseMember", "ShareGroup"]

#: The minimum heartbeat interval while a member's share-partitions are being initialized. With the usual 5 s, a new
#: consumer would get its first record 5 s later than necessary.
INITIALIZING_HEARTBEAT_INTERVAL_MS = 200


class ShareGroup:
    """The state machine of a group. Times are milliseconds since the epoch. Callers must not change `metadata`."""

    def __init__(self, metadata: GroupMetadata) -> None:
        self.metadata = metadata

    @classmethod
    def load(cls, group_id: str, rows: Iterable[TableRecord], now_ms: int, config: GroupConfig) -> Self:
        """Return the group that `rows` describe, with a new session for each member.

        Without rows, the group is empty.
        """
        return cls(recovery.load_group(group_id, rows, now_ms, config))

    @classmethod
    def restore(cls, group_id: str, content: dict[str, Any]) -> Self:
        """Return the group that `dump` wrote. Raises ValueError if `content` has another format version."""
        return cls(dumps.restore_group(group_id, content))

    def dump(self) -> dict[str, Any]:
        """Return the whole state as a compact JSON-able dict."""
        return dumps.dump_group(self.metadata)

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest session deadline, or None if there are no members. `expire` is due at this time."""
        return min(self.metadata.session_deadlines.values(), default=None)

    def assignment_deadline_ms(self, config: GroupConfig) -> int | None:
        """Return the time at which the caller must call `update_assignment`, or None if no assignor run is deferred."""
        if is_run_pending(self.metadata):
            return next_run_ms(self.metadata, config)
        since_ms = self.metadata.initializing_since_ms
        return None if since_ms is None else since_ms + INITIALIZING_MS

    def awaits_assignment(self, member_id: str) -> bool:
        """Return whether the member will receive a new assignment soon.

        This is so in two cases: a topic that the member subscribes to has share-partitions that are not initialized
        yet, or the member has no assignment and a run of the assignor is pending.
        """
        member, group = self.metadata.members.get(member_id), self.metadata
        if member is None:
            return False
        return _is_initializing(member, group) or (is_run_pending(group) and not group.targets[member_id])

    def replay(self, record: Record) -> None:
        """Apply one record. The group changes only through this method."""
        self.metadata.replay(record)

    def apply(self, result: CoordinatorResult) -> None:
        """Replay all records of a result."""
        for record in (*result.records, *result.soft_records):
            self.replay(record)

    def heartbeat(
        self, request: HeartbeatRequest, now_ms: int, config: GroupConfig, append_ms: int | None = None
    ) -> CoordinatorResult:
        """Handle a heartbeat: join (epoch 0), leave (-1, or -2 for a restart) or stay (any other epoch).

        `append_ms` is the append time of the request (None: `now_ms`). The result of a rejected request has no records,
        only a response with an error code: INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, GROUP_ID_NOT_FOUND,
        UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or GROUP_MAX_SIZE_REACHED.
        """
        try:
            check_heartbeat(request)
            member_id = resolve_member_id(self.metadata, request, request.member_epoch == JOIN_GROUP_EPOCH)
            resolved = request if request.member_id == member_id else dataclasses.replace(request, member_id=member_id)
            if request.member_epoch == LEAVE_GROUP_EPOCH:
                return self._leave(resolved, now_ms)
            if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
                return self._leave_for_restart(resolved, now_ms, config)
            return self._join_or_stay(resolved, now_ms, config, now_ms if append_ms is None else append_ms)
        except RequestError as error:
            return rejection(request, error)

    def administer(self, request: AdministratorRequest, job: Config, append_ms: int, now_ms: int) -> CoordinatorResult:
        """Handle an administrator's request for the group's offsets, configs or members, or to delete the group.

        `job` is the job's configuration. `append_ms` is the append time of the request. A rejected request gets a
        response with an error code: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, INVALID_CONFIG or
        INVALID_REQUEST.
        """
        group = self.metadata
        try:
            match request:
                case AlterConfigsRequest():
                    return alter_configs(group, request, job)
                case AlterOffsetsRequest():
                    return alter_offsets(group, request, now_ms)
                case DeleteGroupRequest():
                    return deletion.delete_group(group, request)
                case DeleteOffsetsRequest():
                    return deletion.delete_offsets(group, request)
                case InvokeConsumerRebalanceRequest():
                    config = job.effective_group_config(group.group_id, group.configs).config
                    return invoke_consumer_rebalance(group, request, append_ms, now_ms, config)
                case RemoveMembersRequest():
                    return remove_members(group, request, now_ms)
        except RequestError as error:
            return rejection(request, error)

    @property
    def is_deleted(self) -> bool:
        """Whether the group and all its share-partitions are deleted, so that only its epochs and configs are left."""
        return self.metadata.group_state is GroupState.DEAD and not self.metadata.share_partitions

    def handle_deleted(self, share_partitions: Iterable[tuple[str, int, int]]) -> CoordinatorResult:
        """Handle the notice that the states of share-partitions are durably deleted (`administration.deletion`).

        Each share-partition is (topic id, partition, state_epoch).
        """
        return deletion.remove_deleted(self.metadata, share_partitions)

    def handle_topic_deleted(self, topic_ids: Iterable[str], now_ms: int) -> CoordinatorResult:
        """Handle the notice that these topics were deleted (`administration.deletion`)."""
        return deletion.delete_topics(self.metadata, topic_ids, now_ms)

    def handle_initialized(self, share_partitions: Iterable[tuple[str, int, int]], now_ms: int) -> CoordinatorResult:
        """Handle the notice that the initial states of share-partitions are durable, so that they can be assigned.

        Each share-partition is (topic id, partition, state_epoch). It is skipped if it is unknown or already
        initialized, or if its state epoch is older than the recorded one.

        If no run of the assignor is pending, the group epoch rises when all share-partitions of a topic are
        initialized. If the rest of a topic takes longer than `INITIALIZING_MS`, `update_assignment` raises the epoch.
        If a run is already pending, the epoch does not rise. If that run waits for share-partitions, the wait ends when
        all of them are initialized.
        """
        change, topic_ids = Change(self.metadata), set()
        for topic_id, partition, state_epoch in share_partitions:
            known = self.metadata.share_partitions.get(topic_id, {}).get(partition)
            if known and known.status is SharePartitionStatus.INITIALIZING and known.state_epoch <= state_epoch:
                change.add(known._replace(status=SharePartitionStatus.INITIALIZED))
                topic_ids.add(topic_id)
        if not topic_ids or is_run_pending(change.after):
            if change.after.initializing_since_ms is not None and not change.after.is_initializing:
                change.add(InitializationRecord(None))
            return CoordinatorResult(*change.records())
        if not all(
            change.after.partitions_with_status(topic_id, SharePartitionStatus.INITIALIZING) for topic_id in topic_ids
        ):
            change.bump_group_epoch()
        elif change.after.initializing_since_ms is None:
            change.add(InitializationRecord(now_ms))
        return CoordinatorResult(*change.records())

    def update_assignment(self, now_ms: int, config: GroupConfig) -> CoordinatorResult:
        """Run the assignor if a run is due, or if a topic's initialization takes longer than `INITIALIZING_MS`."""
        change = Change(self.metadata)
        since_ms = self.metadata.initializing_since_ms
        if since_ms is not None and now_ms >= since_ms + INITIALIZING_MS and not is_run_pending(self.metadata):
            change.bump_group_epoch()
        update_target_assignment(change, now_ms, config)
        return CoordinatorResult(*change.records())

    def expire(self, now_ms: int) -> CoordinatorResult:
        """Remove the members whose session deadline has passed."""
        deadlines = sorted(self.metadata.session_deadlines.items())
        return self._remove([member_id for member_id, deadline_ms in deadlines if deadline_ms <= now_ms])

    def _leave(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult:
        member = self._identified(request)
        others_rely = self._others_rely_on(member, request, now_ms)
        result = self._remove([request.member_id])
        if others_rely:
            result = result._replace(releases=tuple(release._replace(topics=()) for release in result.releases))
        return result._replace(
            response=HeartbeatResponse(
                *response_header(request), member_id=request.member_id, member_epoch=LEAVE_GROUP_EPOCH
            )
        )

    def _leave_for_restart(self, request: HeartbeatRequest, now_ms: int, config: GroupConfig) -> CoordinatorResult:
        """Keep the member's assignment and locks for one more session, so that its next process can continue.

        The session deadline never decreases, and nothing is released before it. A deadline that another gateway has
        received therefore stays valid.
        """
        member = self._identified(request)
        deadline_ms = self._session_deadline_ms(member, now_ms, config)
        left = HeartbeatResponse(
            *response_header(request), member_id=request.member_id, member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH
        )
        session = SessionRecord(member.member_id, deadline_ms, request.reply_to, self._others_until_ms(request))
        return CoordinatorResult((member._replace(incarnation_id=NO_INCARNATION),), (session,), left)

    def _identified(self, request: HeartbeatRequest) -> ShareGroupMemberRecord:
        """Return the member that sent the request. The epoch in the request is not checked.

        Raises RequestError if there is no such member, if the request has another instance id, or if it comes from an
        earlier process of the member.
        """
        member = get_member(self.metadata, request.member_id)
        check_identity(member, request)
        check_incarnation(member, request)
        return member

    def _session_deadline_ms(self, member: ShareGroupMemberRecord, now_ms: int, config: GroupConfig) -> int:
        """Return the member's new session deadline. It never decreases, even if the clock steps back."""
        deadline_ms = now_ms + session_timeout_ms(member, config)
        return max(deadline_ms, self.metadata.session_deadlines.get(member.member_id, 0))

    def _others_rely_on(self, member: ShareGroupMemberRecord, request: HeartbeatRequest, now_ms: int) -> bool:
        """Return whether a gateway other than the requester may still rely on the member's session.

        Such a gateway may respond to the member's acknowledgements before the job has processed them. It may do so
        until the session deadline that it received, or until it is notified of the departure. Until that time, the
        member's records must stay locked. Gateways never do this for a static member, because its next process may join
        through any gateway at any time. The result is also False if the member sends its request rows itself.
        """
        if member.is_static:
            return False
        return request.reply_to != request.member_id and self._others_until_ms(request) > now_ms

    def _remove(self, member_ids: list[str]) -> CoordinatorResult:
        if not member_ids:
            return CoordinatorResult()
        change, assignable = Change(self.metadata), tuple(self.metadata.assignable_topics().values())
        leaving = [self.metadata.members[member_id] for member_id in member_ids]
        for member in leaving:
            change.add(member._replace(is_tombstone=True))
        change.bump_group_epoch()
        releases = [ReleaseMember(m.group_id, m.member_id, m.member_epoch, assignable) for m in leaving if assignable]
        return CoordinatorResult(*change.records(), releases=tuple(releases))

    def _join_or_stay(
        self, request: HeartbeatRequest, now_ms: int, config: GroupConfig, append_ms: int
    ) -> CoordinatorResult:
        before = self._member(request, config, append_ms, now_ms)
        change = self._joined_or_stayed(before, _with_request(before, request, append_ms), request, now_ms, config)
        member = change.after.members[before.member_id]
        deadline_ms = self._session_deadline_ms(member, now_ms, config)
        records, soft_records = change.records()
        response = HeartbeatResponse(
            *response_header(request),
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=_heartbeat_interval_ms(member, change.after, now_ms, config),
            assignment=_wire_assignment(member) if _needs_assignment(member, before, request) else None,
            subscribed_topic_names=member.subscribed_topic_names,
            session_deadline_ms=deadline_ms,
        )
        session = SessionRecord(member.member_id, deadline_ms, request.reply_to, self._others_until_ms(request))
        fence = self._fence(member)
        return CoordinatorResult(records, (*soft_records, session), response, fence=fence)

    def _fence(self, member: ShareGroupMemberRecord) -> FenceMember | None:
        """Return the request that fences the member's previous process, or None if no request is needed."""
        before, topics = self.metadata.members.get(member.member_id), tuple(self.metadata.assignable_topics().values())
        if before is None or before.incarnation_id in (None, member.incarnation_id) or not topics:
            return None
        assert member.incarnation_id is not None
        assert member.joined_ms is not None
        return FenceMember(member.group_id, member.member_id, member.incarnation_id, member.joined_ms, topics)

    def _others_until_ms(self, request: HeartbeatRequest) -> int:
        """Return the member's latest session deadline that a gateway other than the requester has received, or 0.

        A member that sends its request rows itself does not count as a gateway.
        """
        reply_to, others_until_ms = self.metadata.deadline_receivers.get(request.member_id, ("", 0))
        if reply_to in ("", request.reply_to, request.member_id):
            return others_until_ms
        return max(others_until_ms, self.metadata.session_deadlines[request.member_id])

    def _joined_or_stayed(
        self,
        before: ShareGroupMemberRecord,
        member: ShareGroupMemberRecord,
        request: HeartbeatRequest,
        now_ms: int,
        config: GroupConfig,
    ) -> Change:
        """Return the change that a heartbeat of a joining or staying member causes.

        It may change the member, the group epoch and the target assignments, and add share-partitions. `member` is
        `before` with the fields of the request.
        """
        change = Change(self.metadata)
        is_new = member.member_id not in self.metadata.members
        if is_new or member != before:
            change.add(member)
        target = self.metadata.targets.get(member.member_id)
        kept = _subscribed(target or (), member.subscribed_topic_names)
        if kept != target:
            change.add(TargetAssignmentRecord(member.member_id, kept))
        reset = str(config.auto_offset_reset)
        names = member.subscribed_topic_names
        discovered = list(discover_partitions(self.metadata, names, request.topics, reset, now_ms))
        for record in discovered:
            change.add(record)
        is_changed = is_new or member.subscribed_topic_names != before.subscribed_topic_names
        if is_changed or discovered:
            is_pending, since_ms = is_run_pending(self.metadata), self.metadata.initializing_since_ms
            change.bump_group_epoch()
            if not is_changed and (not is_pending or since_ms is not None):
                change.add(InitializationRecord(since_ms if is_pending else now_ms))
        update_target_assignment(change, now_ms, config)
        if member.member_epoch != change.after.assignment_epoch:
            change.add(_reconciled(member, change.after))
        return change

    def _member(
        self, request: HeartbeatRequest, config: GroupConfig, append_ms: int, now_ms: int
    ) -> ShareGroupMemberRecord:
        """Return the member before this heartbeat, or a record with epoch 0 for a new member.

        Raises RequestError if the heartbeat must be rejected in the current state of the group.
        """
        group = self.metadata
        if request.member_epoch != JOIN_GROUP_EPOCH:
            member = self._identified(request)
            check_member_epoch(member, request.member_epoch)
            return member
        if request.member_id in group.members:
            member = group.members[request.member_id]
            check_identity(member, request)
            check_join_order(member, request, append_ms, now_ms)
            return member
        check_capacity(group, config.max_size)
        return ShareGroupMemberRecord(
            group.group_id, request.member_id, 0, None, request.client_id, request.client_host, (), (),
            group_instance_id=request.group_instance_id,
        )  # fmt: skip


def _with_request(member: ShareGroupMemberRecord, request: HeartbeatRequest, append_ms: int) -> ShareGroupMemberRecord:
    """Return the member with the fields of the request. Fields that are None in the request do not change.

    Topics that the member no longer subscribes to are removed from its assignment immediately, before the assignor runs
    (KIP-848). If another process joined as the member, `append_ms` is stored as the time of its join.
    """
    names = request.subscribed_topic_names
    if names is not None:
        member = member._replace(
            subscribed_topic_names=tuple(sorted(set(names))), assignment=_subscribed(member.assignment, names)
        )
    incarnation_id = member.incarnation_id if request.incarnation_id is None else request.incarnation_id
    if member.incarnation_id not in (None, incarnation_id):
        member = member._replace(joined_ms=append_ms)
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        incarnation_id=incarnation_id,
    )


def _subscribed(assignment: Assignment, names: Iterable[str]) -> Assignment:
    return tuple(item for item in assignment if item.topic in names)


def _reconciled(member: ShareGroupMemberRecord, group: GroupMetadata) -> ShareGroupMemberRecord:
    """Return the member after its move to the assignment epoch: with this epoch and with its target assignment."""
    return member._replace(
        member_epoch=group.assignment_epoch,
        previous_member_epoch=member.member_epoch,
        assignment=group.targets[member.member_id],
    )


def _needs_assignment(
    member: ShareGroupMemberRecord, before: ShareGroupMemberRecord, request: HeartbeatRequest
) -> bool:
    """Return whether the response must contain the assignment. This is so in three cases:

    - The request contains the subscription, as every join does.
    - The assignment has changed.
    - The member sends its previous epoch, because it may not have received the last response.
    """
    is_full = request.subscribed_topic_names is not None
    return is_full or request.member_epoch != before.member_epoch or member.assignment != before.assignment


def _is_initializing(member: ShareGroupMemberRecord, group: GroupMetadata) -> bool:
    topic_ids = group.topic_ids()
    subscribed = (topic_ids[topic] for topic in member.subscribed_topic_names if topic in topic_ids)
    return any(group.partitions_with_status(topic_id, SharePartitionStatus.INITIALIZING) for topic_id in subscribed)


def _heartbeat_interval_ms(
    member: ShareGroupMemberRecord, group: GroupMetadata, now_ms: int, config: GroupConfig
) -> int:
    """Return the heartbeat interval in ms. While a new assignment is expected, it is shorter than configured."""
    due_ms = next_run_ms(group, config) if is_run_pending(group) else None
    if _is_initializing(member, group):
        soon_ms = INITIALIZING_HEARTBEAT_INTERVAL_MS
    elif due_ms is not None:
        soon_ms = max(INITIALIZING_HEARTBEAT_INTERVAL_MS, due_ms - now_ms)
    else:
        return config.heartbeat_interval_ms
    return min(soon_ms, config.heartbeat_interval_ms)


def _wire_assignment(member: ShareGroupMemberRecord) -> dict[str, Any]:
    return {topic: [topic_id, list(partitions)] for topic, topic_id, partitions in member.assignment}
