"""Handling of the requests for the share-partitions of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from sharegroup.core.operators.rows import RequestRow
from sharegroup.core.operators.share_partition.demands import Demand
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.notices import rejection, response_header
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.share_partition.reservation import reserver_id
from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.rows.reservation_requests import (
    AssignRequest,
    ReassignRequest,
    ReserveRequest,
    UnreserveRequest,
)
from sharegroup.protocol.rows.response_rows import reject_share_partition_request
from sharegroup.protocol.rows.row_fields import InvalidFieldError
from sharegroup.protocol.rows.share_partition_requests import (
    AcknowledgeRequest,
    ConfigureRequest,
    FenceMemberRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
    decode_share_partition_request,
)
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    SharePartitionResponse,
    UnacquireResponse,
)
from sharegroup.types import OffsetRange

Responses = Sequence[SharePartitionResponse]


class _Receiver(NamedTuple):
    """The member to which records were assigned. The epoch is -1 if it is unknown."""

    member_id: str
    incarnation_id: str | None
    member_epoch: int = -1


class RequestHandler:
    """Processes request rows in order. It changes the state of the shard and returns responses."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def handle(self, row: RequestRow) -> tuple[Responses, str | None]:
        """Process a row and return (responses, problem).

        If the request ends waiting fetches, `responses` includes the responses to these fetches. If the row must be
        recorded as invalid in the job's tables, `problem` is the reason. Otherwise it is None.
        """
        try:
            request = decode_share_partition_request(row.value)
        except InvalidFieldError as error:
            return (reject_share_partition_request(error.row, error.code, error.message),), str(error)
        except InvalidRequestRow as error:
            return (), str(error)
        try:
            self._check_keys(request)
            return self._responses(row, request), None
        except RequestError as error:
            return (rejection(request, error),), None if request.reply_to else str(error)

    def _check_keys(self, request: SharePartitionRequest) -> None:
        """Raise RequestError if the group or topic in the request differs from that in the row's key.

        This can happen if an id contains tabs, which separate the parts of a key.
        """
        if (request.group_id, request.topic_id) != (self._state.group_id, self._state.topic_id):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"the row's key does not match topic id {request.topic_id!r}")

    def _responses(self, row: RequestRow, request: SharePartitionRequest) -> Responses:
        """Process a valid row and return the responses. Raises RequestError if the request must be rejected."""
        state = self._state
        if isinstance(request, ConfigureRequest):
            state.configs.set(request.partition, PartitionConfig.from_request(request.config), request.altered_ms)
            state.reapply_log(request.partition)
            return ()
        if isinstance(request, FenceMemberRequest):
            return self._fence_member(row, request)
        managed = state.get(request.partition)
        if managed is None:
            return self._add_pending(row, request)
        if isinstance(request, AssignRequest | ReserveRequest | UnreserveRequest):
            return self._handle_reservation(row, request, managed)
        self._check_incarnation(row, request)
        if isinstance(request, ReleaseMemberRequest):
            return self._release_member(row, request, managed)
        self._check_member(request)
        if isinstance(request, ReassignRequest):
            self._reassign(row, request, managed)
            return ()
        match request:
            case FetchRequest():
                return self._add_demand(row, request, managed)
            case AcknowledgeRequest():
                managed.check_not_late(request, row.append_ms)
                return (self._acknowledge(row, request, managed),)
            case UnacquireRequest():
                managed.unacquire(request)
                return (UnacquireResponse(*response_header(request)),)
            case _:
                assert_never(request)

    def _check_member(self, request: SharePartitionRequest) -> None:
        """Raise RequestError if the member has left with the epoch of the request or a later one."""
        if self._state.departed.has_left(request.partition, request.member_id, request.member_epoch):
            message = f"member {request.member_id} has left the group with epoch {request.member_epoch} or a later one"
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)

    def _check_incarnation(self, row: RequestRow, request: SharePartitionRequest) -> None:
        """Raise RequestError if the sender is no longer the member, because another process replaced it (KIP-345)."""
        if self._is_fenced(row, request.partition, request.member_id, request.incarnation_id):
            message = f"another process has joined as member {request.member_id}"
            raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)

    def _is_fenced(self, row: RequestRow, partition: int, member_id: str, incarnation_id: str | None) -> bool:
        return self._state.incarnations.is_fenced(
            partition, member_id, incarnation_id, row.append_ms, row.kafka_partition
        )

    def _fence_member(self, row: RequestRow, request: FenceMemberRequest) -> Responses:
        """Record the member's new process, and end the waiting fetches of its other processes."""
        state, partition, incarnation_id = self._state, request.partition, request.incarnation_id
        assert incarnation_id is not None
        if not state.incarnations.add(
            partition, request.member_id, incarnation_id, request.joined_ms, row.kafka_partition
        ):
            return ()
        fenced = state.demands.remove_fenced(partition, request.member_id, incarnation_id)
        return [state.demand_response(partition, demand) for demand in fenced]

    def _add_pending(self, row: RequestRow, request: SharePartitionRequest) -> Responses:
        """Keep a request for a share-partition that is not loaded yet.

        Raises RequestError if the topic was deleted, if the request has waited too long, or if too many requests wait.
        However, a request to release a member of a deleted topic is not rejected, because nothing is left to release.
        """
        state = self._state
        if state.deleted_ms is not None:
            if not isinstance(request, ReleaseMemberRequest):
                raise state.topic_deleted_error()
            return (ReleaseMemberResponse(*response_header(request)),)
        if state.pending.add(row, request, state.earliest_ms):
            return ()
        if state.partitions():
            message = f"group {request.group_id} has no share-partition {request.topic}-{request.partition}"
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        message = f"group {request.group_id} has no share-partition of topic {request.topic} with id {request.topic_id}"
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, message)

    def _acknowledge(
        self, row: RequestRow, request: AcknowledgeRequest, managed: ManagedPartition
    ) -> AcknowledgeResponse:
        now_ms, config = self._state.now_ms, self._state.config(request.partition).for_member(request.is_static)
        renewed = managed.acknowledge(request, row.append_ms, now_ms, config)
        deadline_ms = now_ms + config.record_lock_duration_ms if renewed else -1
        return AcknowledgeResponse(*response_header(request), acquired=renewed, lock_deadline_ms=deadline_ms)

    def _handle_reservation(
        self, row: RequestRow, request: ReserveRequest | AssignRequest | UnreserveRequest, managed: ManagedPartition
    ) -> Responses:
        """Process a reservation request of a gateway. Reserve requests are kept until waiting fetches are served."""
        match request:
            case ReserveRequest():
                self._state.add_reserve_request(request)
            case AssignRequest():
                self._assign(row, request, managed)
            case UnreserveRequest():
                reserver = reserver_id(request.requester, request.reservation_epoch)
                managed.unreserve(reserver, request.ranges)
                if request.ranges is None:
                    self._state.cancel_reserve_requests(request.partition, reserver)
            case _:
                assert_never(request)
        return ()

    def _assign(self, row: RequestRow, request: AssignRequest, managed: ManagedPartition) -> None:
        """Assign reserved records to a member. Raises RequestError if they are not reserved for the gateway.

        If the row was appended after `valid_until_ms`, it is ignored, because the gateway does not send the records in
        this case. If the member had left or was replaced by another process before the assignment, the records are
        released immediately, with the increased delivery count.
        """
        if row.append_ms > request.valid_until_ms:  # the gateway has not sent the records
            return
        managed.assign(request, row.append_ms)
        receiver = _Receiver(request.member_id, request.incarnation_id, request.member_epoch)
        self._record_assigned(row, request, managed, receiver, request.ranges)

    def _reassign(self, row: RequestRow, request: ReassignRequest, managed: ManagedPartition) -> None:
        """Release records that `member_id` holds, and assign them to `to_member_id`.

        As in `_assign`, a row that was appended after `valid_until_ms` is ignored. Raises RequestError if `member_id`
        does not hold the records.
        """
        if row.append_ms > request.valid_until_ms:  # the gateway has not sent the records
            return
        managed.reassign(request, row.append_ms, self._state.config(request.partition))
        ranges = [OffsetRange(first, last) for first, last, _ in request.acquired]
        receiver = _Receiver(request.to_member_id, request.to_incarnation_id)
        self._record_assigned(row, request, managed, receiver, ranges)

    def _record_assigned(
        self,
        row: RequestRow,
        request: AssignRequest | ReassignRequest,
        managed: ManagedPartition,
        receiver: _Receiver,
        ranges: Sequence[OffsetRange],
    ) -> None:
        """Record that the member received the assigned records, or release them if it left or was replaced before."""
        state, partition, (member_id, incarnation_id, epoch) = self._state, request.partition, receiver
        is_fenced = self._is_fenced(row, partition, member_id, incarnation_id)
        if is_fenced or state.departed.has_left(partition, member_id, epoch):
            managed.release_assigned(ranges, state.config(partition))
        else:
            state.requesters.record_acquisition(partition, member_id, request.requester, row.append_ms, epoch)

    def _add_demand(self, row: RequestRow, request: FetchRequest, managed: ManagedPartition) -> list[FetchResponse]:
        """Add a waiting fetch. It replaces the member's previous fetch, which gets an empty response.

        A fetch that opens a session first releases the member's records (`_reopened`). A fetch for 0 records is not
        added, but gets an empty response too. It ends only those waiting fetches of the member that came from the same
        requester.
        """
        deadline_ms = row.append_ms + request.max_wait_ms
        is_first = request.opened_ms >= 0 and self._reopened(request, managed)
        asked_ms = max(row.append_ms, request.opened_ms)  # a gateway's estimate of broker time is approximate
        demand = Demand(
            request.id, request.reply_to, request.member_id, request.max_records, deadline_ms, asked_ms,
            request.is_static, request.incarnation_id, is_first, request.reserves, request.member_epoch,
        )  # fmt: skip
        if request.max_records:
            ended = self._state.demands.add(request.partition, demand)
        else:
            requesters = (request.reply_to,)
            ended = *self._state.demands.remove_requesters(request.partition, requesters, request.member_id), demand
        return [self._state.demand_response(request.partition, old) for old in ended]

    def _reopened(self, request: FetchRequest, managed: ManagedPartition) -> bool:
        """Release the member's records, because the fetch opens a new session. Return whether the member held records.

        The same fetch can then acquire these records again. Nothing is released if the member has already got records
        by a request that was appended since the session was opened, for example by this fetch if its row is repeated.
        """
        state, partition, member_id = self._state, request.partition, request.member_id
        if not managed.window.has_member(member_id) or state.requesters.has_fetched_since(
            partition, member_id, request.opened_ms
        ):
            return False
        managed.release_member(member_id, state.config(partition))
        state.requesters.remove_member(partition, member_id)
        return True

    def _release_member(self, row: RequestRow, request: ReleaseMemberRequest, managed: ManagedPartition) -> Responses:
        """Release the records of a member that left or whose session ended.

        Nothing is released if the row is repeated, if the member has joined again since, or if another gateway still
        has a session with the member. If it is unknown through which gateway the member acquired its records, only the
        ranges `delivered` of the request are released. Another gateway may have delivered the other records, so they
        stay acquired until their locks expire.
        """
        state, partition, member_id = self._state, request.partition, request.member_id
        is_known = not request.requester or state.requesters.has_acquired_through(
            partition, member_id, request.requester
        )
        has_left = state.departed.has_left(partition, member_id, request.member_epoch)
        is_old = state.requesters.has_fetched_since(
            partition, member_id, request.opened_ms
        ) or state.requesters.has_acquired_after(partition, member_id, request.member_epoch)
        is_last = state.requesters.end_session(partition, member_id, request.requester, row.append_ms)
        responses: list[SharePartitionResponse] = []
        if is_last and not (has_left or is_old):
            if request.member_epoch >= 0:
                state.departed.add(partition, member_id, request.member_epoch, row.append_ms)
                state.incarnations.remove(partition, member_id)
            given_up = state.demands.remove_member(partition, member_id)
            responses += [state.demand_response(partition, demand) for demand in given_up]
            release = managed.release_member if is_known else managed.release_delivered
            release(member_id, state.config(partition), request.delivered)
            state.requesters.remove_member(partition, member_id)
        return [*responses, ReleaseMemberResponse(*response_header(request))]
