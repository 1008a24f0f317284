"""Acquisition of records for waiting fetches, after all rows of a micro-batch have been processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sharegroup.core.operators.share_partition.demands import Demand
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.share_partition.reservation import requester_of
from sharegroup.protocol.rows.share_partition_responses import FetchResponse, WantedNotice
from sharegroup.types import AcquiredRange


def serve_demands(state: ShardState, partition: int) -> list[FetchResponse | WantedNotice]:
    """Acquire records for the waiting fetches of a share-partition, in order, and return responses and notices.

    Several fetches share the available records evenly, except that a fetch with `is_first` may acquire as many as it
    requests. A fetch that gets no records keeps waiting until its deadline, and then gets an empty response. The
    notices go to gateways whose members hold records while members of other requesters wait.
    """
    managed = state.get(partition)
    if managed is None:
        return []
    config, demands = state.config(partition), state.demands.get(partition)
    responses: list[FetchResponse | WantedNotice] = []
    left: list[Demand] = []
    for index, demand in enumerate(demands):
        acquired: tuple[AcquiredRange, ...] = ()
        own = config.for_member(demand.is_static)
        if managed.window.has_available(config) and not demand.is_abandoned(state.earliest_ms):
            share = demand.max_records if demand.is_first else managed.fair_share(len(demands) - index, config)
            acquired = managed.acquire(demand.member_id, min(demand.max_records, share), state.now_ms, own)
        if acquired:
            state.requesters.record_acquisition(
                partition, demand.member_id, demand.reply_to, demand.requested_ms, demand.member_epoch
            )
            deadline_ms = state.now_ms + own.record_lock_duration_ms
            responses.append(state.demand_response(partition, demand, acquired, deadline_ms))
        elif demand.deadline_ms <= state.earliest_ms:
            responses.append(state.demand_response(partition, demand))
        else:
            left.append(demand)
    state.demands.replace(partition, left)
    return [*responses, *_wanted(state, partition, managed, left)]


def _wanted(
    state: ShardState, partition: int, managed: ManagedPartition, waiting: Sequence[Demand]
) -> Iterator[WantedNotice]:
    """Yield a notice to each gateway whose members hold records while members of other requesters wait.

    A gateway cannot detect by itself that members of other requesters wait. If a waiting member cannot use
    reservations, gateways that have reserved offsets also get the notice.
    """
    if waiting:
        requesters = {demand.reply_to for demand in waiting}
        are_able = all(demand.reserves for demand in waiting)
        reservers = () if are_able else [requester_of(reserver) for reserver in managed.window.reservers()]
        for requester in state.requesters.requesters_to_notify(
            partition, requesters, managed.window.has_member, state.now_ms, reservers
        ):
            yield WantedNotice("", requester, *state.key(partition), "")
