"""Processing of requests to reserve offsets, after waiting fetches have been served.

A reservation must not withhold records from members that cannot use reservations, such as Spark jobs. While such a
member waits, no reservation is granted. If several gateways reserve offsets, each gets a part of the next offsets in
turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.share_partition.reservation import requester_of, reservation_epoch_of, reserver_id
from sharegroup.protocol.rows.reservation_requests import ReserveRequest
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.types import AcquiredRange

#: Time in ms after which a gateway that got no reservation may send another request.
RETRY_MS = 250
#: This time replaces `RETRY_MS` if the topic has no topic id, or if a waiting member cannot use reservations.
RETRY_DENIED_MS = 5_000


def serve_reserves(
    state: ShardState, partition: int, requests: Iterable[ReserveRequest], output: Output
) -> list[ReserveResponse]:
    """Reserve offsets for the requests of a batch, in order, and return the responses.

    If the gateway holds reserved offsets after its request, its lease is extended. The lease then lasts for at least
    `lease_ms` after the time of this batch.
    """
    managed = state.get(partition)
    if managed is None:
        return []
    responses = []
    for request in requests:
        reserver = reserver_id(request.reply_to, request.reservation_epoch)
        if not state.is_cancelled(partition, reserver) and _begin_epoch(managed, request):
            _reserve(state, managed, request)
        response = _response(state, managed, request)
        if response.acquired:
            output.extend_lease(request.reply_to, state.now_ms + request.lease_ms)
        responses.append(response)
    return responses


def are_next_records_reserved(state: ShardState, partition: int) -> bool:
    """Return whether gateways will deliver the next records to all waiting fetches.

    This is so if the next offsets are reserved and every waiting fetch is from a gateway that reserves offsets. The job
    then does not have to poll the log for these fetches.
    """
    managed = state.get(partition)
    if managed is None or managed.window.end_offset <= managed.window.log_end_offset:
        return False
    return all(demand.reserves for demand in state.demands.get(partition)) and bool(managed.window.reservers())


def _begin_epoch(managed: ManagedPartition, request: ReserveRequest) -> bool:
    """End the gateway's reservations of earlier reservation epochs. Return False if the request is outdated.

    The request is outdated if the gateway has reservations of a later epoch. An outdated request ends no reservation.
    """
    own = reserver_id(request.reply_to, request.reservation_epoch)
    others = [found for found in managed.window.reservers() if requester_of(found) == request.reply_to and found != own]
    if any(reservation_epoch_of(found) > request.reservation_epoch for found in others):
        return False
    for earlier in others:
        managed.unreserve(earlier)
    return True


def _reserve(state: ShardState, managed: ManagedPartition, request: ReserveRequest) -> None:
    demands = state.demands.get(request.partition)
    if managed.log is None or not _has_topic_id(managed) or any(not demand.reserves for demand in demands):
        return
    reserver = reserver_id(request.reply_to, request.reservation_epoch)
    managed.reserve(reserver, request.records, state.config(request.partition))


def _retry_ms(state: ShardState, managed: ManagedPartition, request: ReserveRequest) -> int:
    """Return after how many ms a gateway that got no reservation may request one again.

    The time is longer if the topic has no topic id, or if a waiting member cannot use reservations. In both cases, no
    reservations are granted.
    """
    is_able = _has_topic_id(managed) and all(demand.reserves for demand in state.demands.get(request.partition))
    return RETRY_MS if is_able else RETRY_DENIED_MS


def _has_topic_id(managed: ManagedPartition) -> bool:
    return managed.log is None or managed.log.has_topic_id


def _response(state: ShardState, managed: ManagedPartition, request: ReserveRequest) -> ReserveResponse:
    reserver, window = reserver_id(request.reply_to, request.reservation_epoch), managed.window
    config = state.configs.get(request.partition)
    acquired = tuple(AcquiredRange(first, last, 0) for first, last in window.reserved_ranges(reserver))
    return ReserveResponse(
        request.id, request.reply_to, *state.key(request.partition), "",
        reservation_epoch=request.reservation_epoch,
        acquired=acquired,
        log_end_offset=-1 if managed.log is None else window.log_end_offset,
        read_committed=config.read_committed,
        retry_ms=0 if acquired else _retry_ms(state, managed, request),
        record_lock_duration_ms=config.machine.record_lock_duration_ms,
        static_record_lock_duration_ms=config.machine.for_member(is_static=True).record_lock_duration_ms,
    )  # fmt: skip
