"""The operator of the share_partition query: the share-partitions of one (group, topic id, shard).

Theory of operation
-------------------
Lifetime. A `SharePartitionOperator` exists for one key and one micro-batch. The operator is restored from its state
(one text), processes the rows of the micro-batch in a fixed order, and is dumped again. For each share-partition it
stores the window (`share_partition`) and the header of the durable state (`share_coordinator`). The window has the same
content as the state batches, so they are not stored separately. *Demands* are fetches that wait for records.

Clocks. All times are broker times (`kafka_clients.job_clock`), and all are passed in.
- `now_ms` starts new locks. It is the time of the broker whose clock is ahead of the others at the start of the batch,
  or the append time of the newest request in the batch, if that is later.
- `earliest_ms` is the time of the broker whose clock is behind. It is used to compute how long requests have waited.
- The *expiry clock* ends locks. It is the time of a tick. By then, all requests that were appended before that time
  have been read, in every partition of the request topic. An acknowledgement that was appended in time is therefore
  applied before its lock can expire. An acknowledgement that was appended too late is rejected, even if no tick has
  ended its lock yet. The append time of a request does not end locks, because requests with earlier append times may
  not have been read yet: after partitions were added to the request topic, it may have requests for one share-partition
  in several partitions. The operator does not keep the maximum of the times, so a wrong time has no effect on later
  batches.

Fetches. Demands are served after all rows of the batch have been processed, in the order of their arrival. A demand
that opens a session of a member that held records is served first. Several demands share new records evenly, so that a
large one does not starve the others.

Reservations. A gateway reserves offsets after the end of the log (`share_partition.reservation`) and assigns them to
its members when their records arrive. `reserve` requests are served after the demands. When the lease of a gateway
expires (`gateway_leases`), its reservations end in each shard in which it holds some. Its demands in these shards end
too.

Loading. Share-partitions with durable state are loaded before their first request is processed, even if the end offset
of the log is not known yet. A request for a share-partition that is not loaded is kept for a limited time, because the
two queries are not synchronised. All requests for a deleted topic are rejected.

Records. Each share-partition writes at most one durable record per batch, made from the final state of its window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.core.operators import rows
from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.rows import InputRow, RequestRow
from sharegroup.core.operators.share_partition.fetches import serve_demands
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.notices import (
    demand_rejection,
    send_deleted,
    send_initialized,
    send_topic_deleted,
)
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig, SnapshotRules
from sharegroup.core.operators.share_partition.request_handler import RequestHandler
from sharegroup.core.operators.share_partition.reserves import are_next_records_reserved, serve_reserves
from sharegroup.core.operators.share_partition.shard_state import DELETED_MS, ShardState
from sharegroup.core.share_coordinator.durable_rows import delivery_log_row, delivery_log_rows, tombstone_row
from sharegroup.core.share_partition.reservation import requester_of
from sharegroup.monitoring.metrics.window_sizes import WindowSizes
from sharegroup.protocol.json_text import from_json
from sharegroup.types import LAST_ALTERED_MS, Cause, OffsetRange, SharePartitionKey, Transition, WaitsFor


class SharePartitionOperator:
    """The operator of one shard in one micro-batch (`core.operators.operator`).

    `key` is (group_id, topic_id, shard) as text. If `counts` is true, the effects include the sizes of the windows for
    metrics. The constructor raises ValueError if `state` has another format version.
    """

    def __init__(
        self,
        key: str,
        group_id: str,
        topic_id: str,
        snapshot_rules: SnapshotRules,
        state: str | None,
        counts: bool = False,
    ) -> None:
        self._key, self._snapshot_rules, self._counts = key, snapshot_rules, counts
        self._state = ShardState(group_id, topic_id, state)
        self._output = Output(key, 0)
        self._requests = RequestHandler(self._state)
        self._handlers: dict[str, Callable[[Any], None]] = {
            rows.CONFIG: self._configure,
            rows.FENCES: self._fence,
            rows.TOPIC_DELETED: self._lose_topic,
            rows.UNLOAD: self._unload,
            rows.DELETE: self._delete,
            rows.LOAD: self._load,
            rows.LOG: self._move_logs,
            rows.LEASES_OVER: self._end_leases,
            rows.TICK: self._tick,
        }

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Process the rows of a micro-batch and return the effects."""
        state = self._state
        before = state.partitions() if self._counts else []
        batch = rows.sort_rows(lines)
        state.now_ms = rows.latest_ms(batch, now_ms)
        state.earliest_ms = now_ms if earliest_ms is None else earliest_ms
        self._output = Output(self._key, state.now_ms)
        for row in batch:
            self._process(row)
        for partition in state.demands.partitions():
            self._output.respond(*serve_demands(state, partition))
        for partition, requests in state.pop_reserve_requests():
            self._output.respond(*serve_reserves(state, partition, requests, self._output))
        state.end_cancellations()
        for partition, managed in state.touched():
            self._write_record(partition, managed)
        self._output.deadline_ms = state.next_deadline_ms(self._snapshot_rules)
        self._output.reservers = state.gateways_with_reservations()
        self._output.waiting = self._waiting()
        if self._counts:
            self._report_sizes(set(before).difference(state.partitions()))
        return self._output

    def _waiting(self) -> WaitsFor:
        state = self._state
        places = state.demands.partitions()
        if any(managed.has_unacquired for managed in map(state.get, places) if managed is not None):
            return WaitsFor.ROOM
        needs_records = any(not are_next_records_reserved(state, partition) for partition in places)
        return WaitsFor.RECORDS if needs_records else WaitsFor.NOTHING

    def dump(self) -> str | None:
        """Return the operator's state, or None if it is empty."""
        return self._state.dump()

    # -- requests --------------------------------------------------------------------------------------------------

    def _process(self, row: InputRow) -> None:
        if row.request is not None:
            self._output.mark_read(row.request)
            self._handle_request(row.request)
        else:
            self._handlers[row.kind](from_json(row.body))

    def _handle_request(self, row: RequestRow) -> None:
        responses, problem = self._requests.handle(row)
        if problem is not None:
            self._output.record_invalid(row, problem)
        self._output.respond(*responses)

    def _retry_pending(self) -> None:
        for row in self._state.pending.pop_all():
            self._handle_request(row)

    # -- rows of the source ----------------------------------------------------------------------------------------

    def _configure(self, values: dict[str, Any]) -> None:
        state = self._state
        config = PartitionConfig.from_group_config(GroupConfig.from_json(values))
        state.configs.set_all(config, values.get(LAST_ALTERED_MS, 0))
        for partition in state.partitions():
            state.reapply_log(partition)

    def _fence(self, fences: list[tuple[str, str, int]]) -> None:
        """Add the current process of each member, given as (member id, incarnation id, time of its join).

        The source reads them from the tables, because the state of the shard may lack them.
        """
        for member_id, incarnation_id, joined_ms in fences:
            self._state.incarnations.add(None, member_id, incarnation_id, joined_ms)

    def _unload(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._output.respond(*self._state.remove(partition))

    def _load(self, loads: list[dict[str, Any]]) -> None:
        state = self._state
        state.deleted_ms = None
        for load in loads:
            state.topic, partition = load["topic"], load["partition"]
            managed = state.get(partition)
            if managed is None:
                state.add(partition, ManagedPartition.load(load, state.now_ms))
            elif load["state_epoch"] > managed.header.state_epoch:
                managed.reset(load, state.now_ms)
                self._output.respond(*state.cancel_demands(partition))
            if load["log"] is not None:
                self._move_log(partition, PartitionLog(*load["log"]))
            if load["initializing"]:
                send_initialized(self._output, state.key(partition), load["state_epoch"])
        self._retry_pending()

    def _move_logs(self, logs: list[list[Any]]) -> None:
        for partition, *log in logs:
            self._move_log(partition, PartitionLog(*log))

    def _move_log(self, partition: int, log: PartitionLog) -> None:
        state = self._state
        managed, config = state.get(partition), state.configs.get(partition)
        if managed is None or managed.is_outdated(log):
            return
        cut = managed.find_election_cut(log)
        if cut is not None:
            self._report_election_cut(partition, managed, cut)
        if managed.is_of_another_topic(log):
            start_offset = log.log_end_offset if config.starts_at_end else log.log_start_offset
            self._output.notes.append(
                f"share-partition {state.topic}-{partition} of group {state.group_id}: the log ends at "
                f"{log.log_end_offset}, but the acquired records end at {managed.window.end_offset}. The job treats it "
                f"as the log of a new topic of the same name and reads it from {start_offset}"
            )
            state_epoch = managed.header.state_epoch
            begin = {"partition": partition, "state_epoch": state_epoch, "start_offset": start_offset}
            managed.reset(begin, state.now_ms, Cause.TOPIC_DELETED)
            self._output.respond(*state.cancel_demands(partition))
        managed.move_log(log, config)

    def _report_election_cut(self, partition: int, managed: ManagedPartition, cut: OffsetRange) -> None:
        """Report that an unclean leader election removed the delivered offsets `cut`.

        The effects contain a message for the job's log, and a row of `delivery_log` for each range of finished records.
        """
        state, (first, last) = self._state, cut
        self._output.notes.append(
            f"share-partition {state.topic}-{partition} of group {state.group_id}: an unclean leader election "
            f"truncated the log at {first}; the delivered offsets {first}..{last} now belong to other records. "
            "New records at finished offsets are not delivered (cause unclean_election in delivery_log). To read them, "
            f"reset the group's offsets to {first}"
        )
        for batch in managed.window.terminal_batches_in(first, last):
            state_of = batch.delivery_state
            unchanged = Transition(*batch[:2], state_of, state_of, Cause.UNCLEAN_ELECTION, None, batch.delivery_count)
            self._output.append_row("delivery_log", delivery_log_row(state.key(partition), unchanged))

    def _delete(self, deletions: list[tuple[int, int, str]]) -> None:
        """Delete the states of share-partitions, given as (partition, state epoch, topic), and send notices.

        The share-partitions need not be loaded. The notices are sent when the deletion is durable. Repeating a deletion
        after a restart is harmless, because the coordinator ignores notices with an older state epoch.
        """
        state = self._state
        for partition, state_epoch, topic in deletions:
            state.topic = topic
            key, managed = state.key(partition), state.get(partition)
            if managed is not None:
                managed.delete_state()
                self._write_transitions(key, managed)
            self._output.respond(*state.remove(partition))
            self._output.append_row("share_group_state", tombstone_row(key))
            send_deleted(self._output, key, state_epoch)

    def _lose_topic(self, topic: str) -> None:
        """Archive all records in flight of a deleted topic, and reject its waiting and pending requests.

        The share-partitions are removed. The coordinator, the gateways and the members are notified of the deletion.
        """
        state = self._state
        state.topic, state.deleted_ms = topic, state.now_ms
        self._output.notes.append(
            f"topic {topic} with id {state.topic_id} was deleted; group {state.group_id} no longer delivers its records"
        )
        for partition in state.partitions():
            managed = state.get(partition)
            assert managed is not None
            managed.delete_state(Cause.TOPIC_DELETED)
            self._write_record(partition, managed)
            for demand in state.demands.remove_partition(partition):
                self._output.respond(demand_rejection(state.key(partition), demand, state.topic_deleted_error()))
            state.remove(partition)
        self._retry_pending()
        send_topic_deleted(self._output, state.group_id, state.topic_id)

    def _end_leases(self, gateways: list[str]) -> None:
        """End all reservations and waiting fetches of these gateways, because their leases have expired.

        If a gateway has died, its fetches would acquire records that nobody gets until their locks expire. If it lives,
        it receives the empty responses and sends the fetches again.
        """
        state = self._state
        for _, managed in state.reserving():
            for reserver in managed.window.reservers():
                if requester_of(reserver) in gateways:
                    managed.unreserve(reserver)
        for partition in state.demands.partitions():
            for demand in state.demands.remove_requesters(partition, gateways):
                self._output.respond(state.demand_response(partition, demand))

    def _tick(self, clock_ms: int) -> None:
        state = self._state
        for partition in state.partitions():
            managed = state.get(partition)
            assert managed is not None
            managed.expire(clock_ms, state.config(partition))
            managed.request_cold_snapshot(state.now_ms, self._snapshot_rules)
        self._retry_pending()
        state.departed.evict_before(clock_ms)
        if state.deleted_ms is not None and clock_ms >= state.deleted_ms + DELETED_MS:
            state.deleted_ms = None

    # -- rows of the tables ----------------------------------------------------------------------------------------

    def _write_record(self, partition: int, managed: ManagedPartition) -> None:
        key = self._state.key(partition)
        self._write_transitions(key, managed)
        record = managed.make_record(key, self._snapshot_rules, self._state.now_ms)
        if record is not None:
            self._output.append_row("share_group_state", key._asdict() | record)

    def _write_transitions(self, key: SharePartitionKey, managed: ManagedPartition) -> None:
        for row in delivery_log_rows(key, managed.transitions):
            self._output.append_row("delivery_log", row)

    # -- metrics ---------------------------------------------------------------------------------------------------

    def _report_sizes(self, removed: Iterable[int]) -> None:
        for partition in removed:
            self._output.windows.append(list(WindowSizes(*self._state.key(partition), is_managed=False)))
        for partition, managed in self._state.touched():
            self._output.windows.append(list(managed.window_sizes(self._state.key(partition))))
