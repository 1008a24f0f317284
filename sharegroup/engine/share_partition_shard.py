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
from typing import Any, NamedTuple

from sharegroup.config import GroupConfig
from sharegroup.engine import rows
from sharegroup.engine.led_partition import LedPartition
from sharegroup.engine.output import Output
from sharegroup.engine.rows import InputRow, RequestRow
from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.request_rows import (
    ACKNOWLEDGE,
    FETCH,
    INITIALIZED,
    RELEASE_MEMBER,
    AnswerableError,
    ShareGroupRequest,
    SharePartitionRequest,
    decode_share_partition_request,
)
from sharegroup.protocol.response_rows import SharePartitionResponse
from sharegroup.share_partition import SharePartitionConfig
from sharegroup.types import AcquiredRange, Transition

FORMAT_VERSION = 1

#: A fetch this much older than it wanted to wait belongs to a requester that gave up (Kafka's request.timeout.ms).
REQUEST_TIMEOUT_MS = 30_000
#: How long an acknowledgement waits for its share-partition to be loaded before it is refused.
PARKED_MS = 10_000
#: Parked rows of one key; what comes on top is refused at once, so that nonsense cannot fill the state.
MAX_PARKED = 1_000
#: How long a departed member's epoch is remembered, to refuse what its old session still sends.
DEPARTED_MS = 600_000
MAX_DEPARTED = 1_000


class DurableRecords(NamedTuple):
    """When durable records are snapshots: the keys share.coordinator.* of the job."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000


class Demand(NamedTuple):
    """A standing fetch: `deadline_ms` is when it is answered with nothing."""

    id: str
    reply_to: str
    member_id: str
    max_records: int
    deadline_ms: int


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
        self._demands: dict[int, list[Demand]] = {
            int(p): [Demand(*demand) for demand in demands] for p, demands in dumped.get("demands", {}).items()
        }
        self._parked: list[RequestRow] = [RequestRow(*row) for row in dumped.get("parked", ())]
        self._departed: dict[str, list[int]] = dumped.get("departed", {})
        self._output = Output(key, 0)

    def run(self, lines: Sequence[str], now_ms: int) -> Output:
        """Take in the rows of a micro-batch and return its effects."""
        self._now_ms = max(self._now_ms, now_ms)
        self._output = Output(self._key, self._now_ms)
        for row in rows.in_order(lines):
            self._take(row)
        for partition in list(self._demands):
            self._meet_demands(partition)
        self._write_records()
        self._output.deadline_ms = self._next_deadline_ms()
        self._output.waiting = any(self._demands.values())
        return self._output

    def dump(self) -> str | None:
        """The operator's state, None when there is nothing to keep."""
        partitions = {str(p): window for p, window in self._idle.items()}
        partitions |= {str(p): led.dump() for p, led in self._live.items()}
        if not (partitions or self._parked or self._departed):
            return None
        dumped = {
            "version": FORMAT_VERSION,
            "now_ms": self._now_ms,
            "clock_ms": self._clock_ms,
            "config": list(vars(self._config).values()),
            "partitions": partitions,
            "demands": {str(p): demands for p, demands in self._demands.items() if demands},
            "parked": self._parked,
            "departed": self._departed,
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
            for partition in json.loads(row.body):
                self._idle.pop(partition, None)
                self._demands.pop(partition, None)
        elif row.kind == rows.LOAD:
            self._load(json.loads(row.body))
        elif row.kind == rows.LOG:
            for partition, log_start_offset, log_end_offset in json.loads(row.body):
                led = self._led(partition)
                if led is not None:
                    led.move_log(log_start_offset, log_end_offset)
        elif row.kind == rows.TICK:
            self._tick(int(row.body))

    def _load(self, loads: list[dict[str, Any]]) -> None:
        for load in loads:
            partition = load["partition"]
            led = self._led(partition)
            if led is None:
                self._live[partition] = LedPartition.load(load, self._now_ms)
            elif load["state_epoch"] > led.header.state_epoch:
                led.reset(load, self._now_ms)
                self._demands.pop(partition, None)
            if load["initializing"]:
                self._notify_initialized(partition, load["state_epoch"])
        parked, self._parked = self._parked, []
        for request in parked:
            self._take_request(request)

    def _notify_initialized(self, partition: int, state_epoch: int) -> None:
        """Tell the group coordinator, once this batch has made the initial state durable."""
        notice = ShareGroupRequest(
            INITIALIZED,
            f"initialized-{self._topic}-{partition}-{state_epoch}",
            self._group_id,
            initialized=((self._topic, partition, state_epoch),),
        )
        self._output.requests.append((notice.kafka_key.decode(), notice.encode().decode()))

    def _tick(self, clock_ms: int) -> None:
        self._clock_ms = max(self._clock_ms, clock_ms)
        for partition in sorted({*self._idle, *self._live}):
            led = self._led(partition)
            assert led is not None
            led.expire(self._clock_ms, self._config)
            led.snapshot_when_cold(self._now_ms, self._records)
        self._parked, parked = [], self._parked
        for request in parked:
            self._take_request(request)
        self._departed = {m: entry for m, entry in self._departed.items() if entry[1] >= self._clock_ms - DEPARTED_MS}

    # -- requests --------------------------------------------------------------------------------------------------

    def _take_request(self, row: RequestRow) -> None:
        try:
            request = decode_share_partition_request(row.value)
        except AnswerableError as error:
            self._refuse_undecoded(row, error)
            return
        except InvalidRequestRow as error:
            self._output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
            return
        if (request.group_id, request.topic) != (self._group_id, self._topic):  # names that no topic has, such as tabs
            self._refuse(row, request, RequestError(ErrorCode.INVALID_REQUEST, f"invalid topic name {request.topic!r}"))
            return
        led = self._led(request.partition)
        if led is None:
            self._park(row, request)
            return
        led.expire(row.append_ms, self._config)
        try:
            self._check_session(request)
            self._apply(row, request, led)
        except RequestError as error:
            self._refuse(row, request, error)

    def _apply(self, row: RequestRow, request: SharePartitionRequest, led: LedPartition) -> None:
        if request.type == FETCH:
            self._demand(row, request)
        elif request.type == ACKNOWLEDGE:
            deadline_ms = led.acknowledge(request, self._now_ms, self._config)
            self._answer(request, lock_deadline_ms=deadline_ms)
        elif request.type == RELEASE_MEMBER:
            self._release_member(row, request, led)
        else:
            led.unacquire(request)
            self._answer(request)

    def _demand(self, row: RequestRow, request: SharePartitionRequest) -> None:
        """One demand stands for each member: a new one takes the old one's place, which is answered with nothing."""
        demands = self._demands.setdefault(request.partition, [])
        for old in [demand for demand in demands if demand.member_id == request.member_id]:
            self._answer_demand(request.partition, old)
            demands.remove(old)
        deadline_ms = row.append_ms + request.max_wait_ms
        demand = Demand(request.id, request.reply_to, request.member_id, request.max_records, deadline_ms)
        if deadline_ms + REQUEST_TIMEOUT_MS < self._now_ms:
            self._answer_demand(request.partition, demand)  # nobody waits for it any more: acquire nothing
            return
        demands.append(demand)

    def _release_member(self, row: RequestRow, request: SharePartitionRequest, led: LedPartition) -> None:
        """The member's session is over; said twice, or after the member came back, it does nothing."""
        partition, member_id = request.partition, request.member_id
        departed_epoch = self._departed_epoch(partition, member_id)
        if 0 <= request.member_epoch <= departed_epoch:
            return
        if request.member_epoch >= 0:
            if len(self._departed) >= MAX_DEPARTED:
                self._departed.pop(next(iter(self._departed)))
            self._departed[f"{partition} {member_id}"] = [request.member_epoch, row.append_ms]
        self._demands[partition] = [d for d in self._demands.get(partition, ()) if d.member_id != member_id]
        led.release_member(member_id, self._config)
        self._answer(request)

    def _check_session(self, request: SharePartitionRequest) -> None:
        if request.type == RELEASE_MEMBER:
            return
        if 0 <= request.member_epoch <= self._departed_epoch(request.partition, request.member_id):
            raise RequestError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"member {request.member_id} left with epoch {request.member_epoch} or a later one",
            )

    def _departed_epoch(self, partition: int, member_id: str) -> int:
        return self._departed.get(f"{partition} {member_id}", (-1, 0))[0]

    def _park(self, row: RequestRow, request: SharePartitionRequest) -> None:
        """Wait for the share-partition to be loaded, or refuse what waited long enough."""
        waits_ms = min(request.max_wait_ms, PARKED_MS) if request.type == FETCH else PARKED_MS
        too_long = max(self._clock_ms, self._now_ms) > row.append_ms + waits_ms
        if too_long or len(self._parked) >= MAX_PARKED:
            message = f"group {request.group_id} has no share-partition {request.topic}-{request.partition}"
            self._refuse(row, request, RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
        else:
            self._parked.append(row)

    # -- demands ---------------------------------------------------------------------------------------------------

    def _meet_demands(self, partition: int) -> None:
        """Give what is available to the waiting demands, first come first served, in even shares of what is new."""
        demands = self._demands.get(partition)
        led = self._led(partition) if demands else None
        if not demands or led is None:
            return
        left: list[Demand] = []
        for index, demand in enumerate(demands):
            acquired: tuple[AcquiredRange, ...] = ()
            if led.window.has_available(self._config):
                share = led.fair_share(len(demands) - index, self._config)
                acquired = led.acquire(demand.member_id, min(demand.max_records, share), self._now_ms, self._config)
            if acquired:
                deadline_ms = self._now_ms + self._config.record_lock_duration_ms
                self._answer_demand(partition, demand, acquired, deadline_ms)
            elif demand.deadline_ms <= self._now_ms:
                self._answer_demand(partition, demand)
            else:
                left.append(demand)
        self._demands[partition] = left

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answer_demand(
        self, partition: int, demand: Demand, acquired: tuple[AcquiredRange, ...] = (), lock_deadline_ms: int = -1
    ) -> None:
        self._respond(
            SharePartitionResponse(
                FETCH,
                demand.id,
                demand.reply_to,
                self._group_id,
                self._topic,
                partition,
                demand.member_id,
                acquired=acquired,
                lock_deadline_ms=lock_deadline_ms,
            )  # fmt: skip
        )

    def _answer(self, request: SharePartitionRequest, lock_deadline_ms: int = -1) -> None:
        self._respond(
            SharePartitionResponse(
                request.type,
                request.id,
                request.reply_to,
                request.group_id,
                request.topic,
                request.partition,
                request.member_id,
                lock_deadline_ms=lock_deadline_ms,
            )  # fmt: skip
        )

    def _refuse(self, row: RequestRow, request: SharePartitionRequest, error: RequestError) -> None:
        if not request.reply_to:
            self._output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
        self._respond(
            SharePartitionResponse(
                request.type,
                request.id,
                request.reply_to,
                request.group_id,
                request.topic,
                request.partition,
                request.member_id,
                int(error.code),
                error.message,
            )  # fmt: skip
        )

    def _refuse_undecoded(self, row: RequestRow, error: AnswerableError) -> None:
        refuse_undecoded(self._output, row, error)

    def _respond(self, response: SharePartitionResponse) -> None:
        if response.reply_to:
            self._output.responses.append(response._asdict())

    # -- the end of a run ------------------------------------------------------------------------------------------

    def _led(self, partition: int) -> LedPartition | None:
        """The share-partition, restored if it was idle so far; None if this key does not lead it."""
        if partition not in self._live and partition in self._idle:
            self._live[partition] = LedPartition.restore(self._idle.pop(partition))
        return self._live.get(partition)

    def _write_records(self) -> None:
        for partition in sorted(self._live):
            led = self._live[partition]
            key = {"group_id": self._group_id, "topic": self._topic, "partition": partition}
            for transition in led.transitions:
                self._output.append("delivery_log", key | _log_row(transition))
            record = led.record(self._group_id, self._topic, partition, self._records, self._now_ms)
            if record is not None:
                self._output.append("share_group_state", key | record)

    def _next_deadline_ms(self) -> int | None:
        deadlines = [led.next_deadline_ms(self._records) for led in self._live.values()]
        deadlines += [LedPartition.dumped_deadline_ms(dumped, self._records) for dumped in self._idle.values()]
        deadlines += [demand.deadline_ms for demands in self._demands.values() for demand in demands]
        deadlines += [row.append_ms + PARKED_MS for row in self._parked]
        deadlines += [entry[1] + DEPARTED_MS for entry in self._departed.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)


def refuse_undecoded(output: Output, row: RequestRow, error: AnswerableError) -> None:
    """A response with what is known of the request, and a rejection with its coordinates beside it."""
    output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
    known = error.row
    if not known["reply_to"]:
        return
    partition = known.get("partition")
    response = SharePartitionResponse(
        str(known.get("type", "")),
        known["id"],
        known["reply_to"],
        str(known.get("group_id", "")),
        str(known.get("topic", "")),
        partition if isinstance(partition, int) else -1,
        str(known.get("member_id", "")),
        int(error.code),
        error.message,
    )
    output.responses.append(response._asdict())


def reject_unkeyed(key: str, lines: Sequence[str], now_ms: int) -> Output:
    """Rows that name no share-partition at all: answered where the requester is known, rejected in any case."""
    output = Output(key, now_ms)
    for line in rows.in_order(lines):
        row = line.request
        if row is None:
            continue
        output.read_up_to(row.kafka_partition, row.kafka_offset + 1)
        try:
            decode_share_partition_request(row.value)
            output.rejected.append((row.kafka_partition, row.kafka_offset, "names no share-partition"))
        except AnswerableError as error:
            refuse_undecoded(output, row, error)
        except InvalidRequestRow as error:
            output.rejected.append((row.kafka_partition, row.kafka_offset, str(error)))
    return output


def _machine_config(config: GroupConfig) -> SharePartitionConfig:
    return SharePartitionConfig(
        delivery_count_limit=config.delivery_count_limit,
        record_lock_duration_ms=config.record_lock_duration_ms,
        max_record_locks=config.partition_max_record_locks,
        renew_enabled=config.renew_acknowledge_enable,
    )


def _log_row(transition: Transition) -> dict[str, Any]:
    deadline_ms = transition.lock_deadline_ms
    return {
        "first_offset": transition.first_offset,
        "last_offset": transition.last_offset,
        "from_state": transition.from_state.name,
        "to_state": transition.to_state.name,
        "cause": transition.cause.value,
        "member_id": transition.member_id,
        "delivery_count": transition.delivery_count,
        "lock_deadline": None if deadline_ms is None else deadline_ms * 1000,
    }
