"""The operator of the share_partition query: the share-partitions of one (group, topic, shard).

Theory of operation
-------------------
A `Shard` lives for one run of one key: restored from the operator's state (one JSON text), fed the rows of a
micro-batch in their fixed order, dumped again. For each share-partition it holds the window (`share_partition`) and the
header of its durable state (`share_coordinator`); the window is the merged state batches, so nothing is held twice.
Beside them stand the *demands*: fetches that wait for a record.

Time. Two clocks, and neither is read here:
- `now_ms`, the batch's timestamp, starts new locks. It never goes back: the later of it and the last one counts.
- A share-partition's *safe clock* expires locks. It moves to the append time of each request of that share-partition
  (whatever was appended earlier has been read), and to the time of a tick (all requests appended before it have been
  read). So an acknowledgement counts from its append: one that was in time is applied before its lock can expire.

Demands are met after all rows of the batch were seen, in the order in which they came; with several waiting, new
records are shared out evenly, so that one big demand does not starve the others. A request for a share-partition that
is not loaded yet is parked: the two queries have no common clock.

Every share-partition writes at most one durable record in a batch, made from where its window ends up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.engine import rows
from sharegroup.engine.answers import answer, answer_demand, refuse, refuse_undecoded, tell_wanted
from sharegroup.engine.demands import Demand, Demands
from sharegroup.engine.departed_members import DepartedMembers
from sharegroup.engine.durable_records import DurableRecords
from sharegroup.engine.durable_rows import log_row, tombstone_row
from sharegroup.engine.led_partition import LedPartition
from sharegroup.engine.output import Output
from sharegroup.engine.parked_requests import ParkedRequests
from sharegroup.engine.requesters import Requesters
from sharegroup.engine.rows import InputRow, RequestRow
from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.request_rows import (
    ACKNOWLEDGE,
    DELETED,
    FETCH,
    INITIALIZED,
    RELEASE_MEMBER,
    AnswerableError,
    ShareGroupRequest,
    SharePartitionRequest,
    decode_share_partition_request,
)
from sharegroup.share_partition import SharePartitionConfig
from sharegroup.types import AcquiredRange, SharePartitionKey

FORMAT_VERSION = 1


class Shard:
    """One run of one key; see the module. `key` is (group_id, topic, shard) as text."""

    def __init__(self, key: str, group_id: str, topic: str, records: DurableRecords, state: str | None) -> None:
        self._key, self._group_id, self._topic, self._records = key, group_id, topic, records
        dumped = json.loads(state) if state else {}
        if dumped and dumped["version"] != FORMAT_VERSION:
            raise ValueError(f"operator state of format {dumped['version']}, this job reads {FORMAT_VERSION}")
        self._now_ms: int = dumped.get("now_ms", 0)
        self._clock_ms: int = dumped.get("clock_ms", 0)
        self._config = SharePartitionConfig(*dumped.get("config", ()))
        #: Dumped windows, restored when a row touches them.
        self._idle: dict[int, Any] = {int(p): window for p, window in dumped.get("partitions", {}).items()}
        self._live: dict[int, LedPartition] = {}
        self._demands = Demands(dumped.get("demands", {}))
        self._parked = ParkedRequests(dumped.get("parked", ()))
        self._departed = DepartedMembers(dumped.get("departed", {}))
        self._requesters = Requesters(dumped.get("requesters", {}))
        self._output = Output(key, 0)

    def run(self, lines: Sequence[str], now_ms: int) -> Output:
        """Take in the rows of a micro-batch and return its effects."""
        self._now_ms = max(self._now_ms, now_ms)
        self._output = Output(self._key, self._now_ms)
        for row in rows.in_order(lines):
            self._take(row)
        for partition in self._demands.partitions():
            self._meet_demands(partition)
        self._write_records()
        self._output.deadline_ms = self._next_deadline_ms()
        self._output.waiting = bool(self._demands.partitions())
        return self._output

    def dump(self) -> str | None:
        """The operator's state, None when there is nothing to keep."""
        partitions = {
            str(p): self._live[p].dump() if p in self._live else self._idle[p]
            for p in sorted({*self._idle, *self._live})
        }
        if not (partitions or self._parked or self._departed):
            return None
        dumped = {
            "version": FORMAT_VERSION,
            "now_ms": self._now_ms,
            "clock_ms": self._clock_ms,
            "config": list(vars(self._config).values()),
            "partitions": partitions,
            "demands": self._demands.dump(),
            "parked": self._parked.dump(),
            "departed": self._departed.dump(),
            "requesters": self._requesters.dump(),
        }
        return json.dumps(dumped, separators=(",", ":"))

    # -- rows ------------------------------------------------------------------------------------------------------

    def _take(self, row: InputRow) -> None:
        if row.request is not None:
            self._output.read_up_to(row.request.kafka_partition, row.request.kafka_offset + 1)
            self._take_request(row.request)
        elif row.kind == rows.CONFIG:
            self._config = _machine_config(GroupConfig.from_json(json.loads(row.body)))
        elif row.kind == rows.UNLOAD:
            self._unload(json.loads(row.body))
        elif row.kind == rows.DELETE:
            self._delete(json.loads(row.body))
        elif row.kind == rows.LOAD:
            self._load(json.loads(row.body))
        elif row.kind == rows.LOG:
            for partition, log_start_offset, log_end_offset in json.loads(row.body):
                led = self._led(partition)
                if led is not None:
                    led.move_log(log_start_offset, log_end_offset)
        elif row.kind == rows.TICK:
            self._tick(int(row.body))

    def _unload(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._idle.pop(partition, None)
            self._live.pop(partition, None)
            self._requesters.drop(partition)
            self._give_up_demands(partition)

    def _load(self, loads: list[dict[str, Any]]) -> None:
        for load in loads:
            partition = load["partition"]
            led = self._led(partition)
            if led is None:
                self._live[partition] = LedPartition.load(load, self._now_ms)
            elif load["state_epoch"] > led.header.state_epoch:
                led.reset(load, self._now_ms)
                self._give_up_demands(partition)
            if load["initializing"]:
                self._notify(INITIALIZED, partition, load["state_epoch"])
        self._take_parked()

    def _delete(self, deletions: list[tuple[int, int]]) -> None:
        """Forget the states of (partition, state epoch), whether they are led here or not, and tell once it is durable.

        Said again after a start, it does no harm: whoever is initialized anew is not said to be deleted any more.
        """
        for partition, state_epoch in deletions:
            key, led = self._partition_key(partition), self._led(partition)
            if led is not None:
                led.forget()
                for transition in led.transitions:
                    self._output.append("delivery_log", log_row(key, transition))
                del self._live[partition]
            self._requesters.drop(partition)
            self._give_up_demands(partition)
            self._output.append("share_group_state", tombstone_row(key))
            self._notify(DELETED, partition, state_epoch)

    def _notify(self, kind: str, partition: int, state_epoch: int) -> None:
        """Tell the group coordinator, once this batch has made durable what the notice says."""
        named = ((self._topic, partition, state_epoch),)
        notice = ShareGroupRequest(
            kind,
            f"{kind}-{self._topic}-{partition}-{state_epoch}",
            self._group_id,
            initialized=named if kind == INITIALIZED else (),
            deleted=named if kind == DELETED else (),
        )
        self._output.requests.append((notice.kafka_key.decode(), notice.encode().decode()))

    def _tick(self, clock_ms: int) -> None:
        self._clock_ms = max(self._clock_ms, clock_ms)
        for partition in sorted({*self._idle, *self._live}):
            led = self._led(partition)
            assert led is not None
            led.expire(self._clock_ms, self._config)
            led.snapshot_when_cold(self._now_ms, self._records)
        self._take_parked()
        self._departed.forget(self._clock_ms)

    # -- requests --------------------------------------------------------------------------------------------------

    def _take_parked(self) -> None:
        for row in self._parked.take_all():
            self._take_request(row)

    def _take_request(self, row: RequestRow) -> None:
        try:
            request = decode_share_partition_request(row.value)
        except AnswerableError as error:
            refuse_undecoded(self._output, row, error)
            return
        except InvalidRequestRow as error:
            self._output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
            return
        try:
            self._check_keys(request)
            led = self._led(request.partition)
            if led is None:
                self._park(row, request)
                return
            led.expire(row.append_ms, self._config)
            self._apply(row, request, led)
        except RequestError as error:
            refuse(self._output, row, request, error)

    def _check_keys(self, request: SharePartitionRequest) -> None:
        """A request may name another group or topic than its key: names that no topic has, such as ones with tabs."""
        if (request.group_id, request.topic) != (self._group_id, self._topic):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"invalid topic name {request.topic!r}")

    def _park(self, row: RequestRow, request: SharePartitionRequest) -> None:
        if not self._parked.park(row, request, max(self._clock_ms, self._now_ms)):
            message = f"group {request.group_id} has no share-partition {request.topic}-{request.partition}"
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    def _apply(self, row: RequestRow, request: SharePartitionRequest, led: LedPartition) -> None:
        has_left = self._departed.has_left(request.partition, request.member_id, request.member_epoch)
        if request.type == RELEASE_MEMBER:
            moved = self._requesters.has_another(request.partition, request.member_id, request.requester)
            if not (has_left or moved):  # said twice, or after the member came back, it does nothing
                self._release_member(row, request, led)
            answer(self._output, request)
        elif has_left:
            message = f"member {request.member_id} left with epoch {request.member_epoch} or a later one"
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)
        elif request.type == FETCH:
            self._demand(row, request)
        elif request.type == ACKNOWLEDGE:
            renewed = led.acknowledge(request, self._now_ms, self._config)
            deadline_ms = self._now_ms + self._config.record_lock_duration_ms if renewed else -1
            answer(self._output, request, renewed, deadline_ms)
        else:
            led.unacquire(request)
            answer(self._output, request)

    def _demand(self, row: RequestRow, request: SharePartitionRequest) -> None:
        """One demand stands for each member: a new one takes the old one's place, which is answered with nothing."""
        deadline_ms = row.append_ms + request.max_wait_ms
        demand = Demand(request.id, request.reply_to, request.member_id, request.max_records, deadline_ms)
        for old in self._demands.add(request.partition, demand):
            answer_demand(self._output, self._partition_key(request.partition), old)

    def _release_member(self, row: RequestRow, request: SharePartitionRequest, led: LedPartition) -> None:
        """The member's session is over, and so is its wait: a demand of it is answered with nothing."""
        if request.member_epoch >= 0:
            self._departed.add(request.partition, request.member_id, request.member_epoch, row.append_ms)
        for demand in self._demands.drop_member(request.partition, request.member_id):
            answer_demand(self._output, self._partition_key(request.partition), demand)
        led.release_member(request.member_id, self._config, request.delivered)
        self._requesters.forget(request.partition, request.member_id)

    # -- demands ---------------------------------------------------------------------------------------------------

    def _meet_demands(self, partition: int) -> None:
        """Give what is available to the waiting demands, first come first served, in even shares of what is new."""
        led = self._led(partition)
        if led is None:
            return
        demands, left = self._demands.at(partition), []
        for index, demand in enumerate(demands):
            acquired: tuple[AcquiredRange, ...] = ()
            if led.window.has_available(self._config) and not demand.is_abandoned(self._now_ms):
                share = led.fair_share(len(demands) - index, self._config)
                acquired = led.acquire(demand.member_id, min(demand.max_records, share), self._now_ms, self._config)
            if acquired:
                self._requesters.acquired(partition, demand.member_id, demand.reply_to)
                deadline_ms = self._now_ms + self._config.record_lock_duration_ms
                answer_demand(self._output, self._partition_key(partition), demand, acquired, deadline_ms)
            elif demand.deadline_ms <= self._now_ms:
                answer_demand(self._output, self._partition_key(partition), demand)
            else:
                left.append(demand)
        self._demands.replace(partition, left)
        if left:
            self._tell_holders(partition, led, left)

    def _tell_holders(self, partition: int, led: LedPartition, waiting: Sequence[Demand]) -> None:
        """A gateway whose members hold records cannot know of those of another one who wait."""
        requesters = {demand.reply_to for demand in waiting}
        for requester in self._requesters.to_tell(partition, requesters, led.window.holds, self._now_ms):
            tell_wanted(self._output, self._partition_key(partition), requester)

    def _give_up_demands(self, partition: int) -> None:
        """The share-partition is not here any more, or not the same: its members fetch again."""
        for demand in self._demands.drop(partition):
            answer_demand(self._output, self._partition_key(partition), demand)

    # -- the end of a run ------------------------------------------------------------------------------------------

    def _partition_key(self, partition: int) -> SharePartitionKey:
        return SharePartitionKey(self._group_id, self._topic, partition)

    def _led(self, partition: int) -> LedPartition | None:
        """The share-partition, restored if it was idle so far; None if this key does not lead it."""
        if partition not in self._live and partition in self._idle:
            self._live[partition] = LedPartition.restore(self._idle.pop(partition))
        return self._live.get(partition)

    def _write_records(self) -> None:
        for partition in sorted(self._live):
            led = self._live[partition]
            key = self._partition_key(partition)
            for transition in led.transitions:
                self._output.append("delivery_log", log_row(key, transition))
            record = led.record(key, self._records, self._now_ms)
            if record is not None:
                self._output.append("share_group_state", key._asdict() | record)

    def _next_deadline_ms(self) -> int | None:
        deadlines = [led.next_deadline_ms(self._records) for led in self._live.values()]
        deadlines += [LedPartition.dumped_deadline_ms(dumped, self._records) for dumped in self._idle.values()]
        deadlines += [demand.deadline_ms for demand in self._demands]
        return min([*deadlines, *self._parked.deadlines_ms(), *self._departed.deadlines_ms()], default=None)


def _machine_config(config: GroupConfig) -> SharePartitionConfig:
    return SharePartitionConfig(
        delivery_count_limit=config.delivery_count_limit,
        record_lock_duration_ms=config.record_lock_duration_ms,
        max_record_locks=config.partition_max_record_locks,
        renew_enabled=config.renew_acknowledge_enable,
    )
