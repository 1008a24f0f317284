"""The operator of the share_partition query: the share-partitions of one (group, topic id, shard).

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
records are shared out evenly, so that one big demand does not starve the others.

What is there. Whatever has a durable state is loaded in front of the first requests, though nobody may know yet how far
its log reaches. So a request finds its share-partition, or one that has nothing to acknowledge yet: it is parked for a
while, for the two queries have no common clock. Of a topic that is no more, everything is refused, and soon forgotten.

Every share-partition writes at most one durable record in a batch, made from where its window ends up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from sharegroup.config import GroupConfig
from sharegroup.engine import rows
from sharegroup.engine.answers import demand_refusal, refusal, request_named
from sharegroup.engine.demands import Demand, Demands
from sharegroup.engine.departed_members import DepartedMembers
from sharegroup.engine.durable_rows import log_row, tombstone_row
from sharegroup.engine.led_partition import LedPartition
from sharegroup.engine.log_offsets import LogOffsets
from sharegroup.engine.notices import tell_deleted, tell_initialized, tell_topic_deleted
from sharegroup.engine.output import Output
from sharegroup.engine.parked_requests import ParkedRequests
from sharegroup.engine.partition_configs import PartitionConfig, PartitionConfigs
from sharegroup.engine.requesters import Requesters
from sharegroup.engine.rows import InputRow, RequestRow
from sharegroup.engine.snapshot_rules import SnapshotRules
from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.response_rows import share_partition_refusal
from sharegroup.protocol.share_partition_requests import (
    AcknowledgeRequest,
    AnswerableError,
    ConfigureRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
    decode_share_partition_request,
)
from sharegroup.protocol.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    SharePartitionResponse,
    UnacquireResponse,
    WantedNotice,
)
from sharegroup.types import AcquiredRange, Cause, SharePartitionKey

FORMAT_VERSION = 2
#: For how long it is remembered that a topic is no more: requests of its time may still come.
GONE_MS = 600_000


class Shard:
    """One run of one key; see the module. `key` is (group_id, topic_id, shard) as text.

    Raises ValueError for a state of another format.
    """

    def __init__(self, key: str, group_id: str, topic_id: str, records: SnapshotRules, state: str | None) -> None:
        self._key, self._group_id, self._topic_id, self._records = key, group_id, topic_id, records
        dumped = json.loads(state) if state else {}
        if dumped and dumped["version"] != FORMAT_VERSION:
            raise ValueError(
                f"operator state of format {dumped['version']}, this job reads {FORMAT_VERSION}: remove the checkpoint "
                "of the query share_partition (below checkpoint.path), and the job comes back from the tables"
            )
        #: The topic's name, as the source says it.
        self._topic: str = dumped.get("topic", "")
        self._gone_ms: int | None = dumped.get("gone_ms")
        self._now_ms: int = dumped.get("now_ms", 0)
        self._clock_ms: int = dumped.get("clock_ms", 0)
        self._configs = PartitionConfigs(dumped.get("configs", {}))
        #: Dumped windows, restored when a row touches them.
        self._idle: dict[int, Any] = {int(p): window for p, window in dumped.get("partitions", {}).items()}
        self._live: dict[int, LedPartition] = {}
        self._demands = Demands(dumped.get("demands", {}))
        self._parked = ParkedRequests(dumped.get("parked", ()))
        self._departed = DepartedMembers(dumped.get("departed", {}))
        self._requesters = Requesters(dumped.get("requesters", {}))
        self._output = Output(key, 0)
        self._of_source: dict[str, Callable[[Any], None]] = {
            rows.CONFIG: self._configure,
            rows.GONE: self._lose_topic,
            rows.UNLOAD: self._unload,
            rows.DELETE: self._delete,
            rows.LOAD: self._load,
            rows.LOG: self._move_logs,
            rows.TICK: self._tick,
        }

    def run(self, lines: Sequence[str], now_ms: int) -> Output:
        """Take in the rows of a micro-batch and return its effects."""
        self._now_ms = max(self._now_ms, now_ms)
        self._output = Output(self._key, self._now_ms)
        for row in rows.in_order(lines):
            self._take(row)
        for partition in self._demands.partitions():
            self._meet_demands(partition)
        for partition in sorted(self._live):
            self._write_record(partition, self._live[partition])
        self._output.deadline_ms = self._next_deadline_ms()
        self._output.waiting = bool(self._demands.partitions())
        return self._output

    def dump(self) -> str | None:
        """The operator's state, None when there is nothing to keep."""
        partitions = {str(p): self._live[p].dump() if p in self._live else self._idle[p] for p in self._here()}
        if not (partitions or self._parked or self._departed or self._gone_ms is not None):
            return None
        dumped = {
            "version": FORMAT_VERSION,
            "topic": self._topic,
            "gone_ms": self._gone_ms,
            "now_ms": self._now_ms,
            "clock_ms": self._clock_ms,
            "configs": self._configs.dump(),
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
            self._output.read(row.request)
            self._take_request(row.request)
        else:
            take = self._of_source[row.kind]
            take(json.loads(row.body))

    def _configure(self, values: dict[str, Any]) -> None:
        self._configs.set_all(PartitionConfig.of(GroupConfig.from_json(values)))
        for partition in self._here():
            self._look_again(partition)

    def _unload(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._idle.pop(partition, None)
            self._forget(partition)

    def _load(self, loads: list[dict[str, Any]]) -> None:
        self._gone_ms = None
        for load in loads:
            self._topic, partition = load["topic"], load["partition"]
            led = self._led(partition)
            if led is None:
                self._live[partition] = LedPartition.load(load, self._now_ms)
            elif load["state_epoch"] > led.header.state_epoch:
                led.reset(load, self._now_ms)
                self._give_up_demands(partition)
            if load["log"] is not None:
                self._move_log(partition, LogOffsets(*load["log"]))
            if load["initializing"]:
                tell_initialized(self._output, self._partition_key(partition), load["state_epoch"])
        self._take_parked()

    def _move_logs(self, logs: list[list[Any]]) -> None:
        for partition, *log in logs:
            self._move_log(partition, LogOffsets(*log))

    def _move_log(self, partition: int, log: LogOffsets) -> None:
        led, config = self._led(partition), self._configs.of(partition)
        if led is None:
            return
        if led.is_of_another_topic(log):
            start_offset = log.log_end_offset if config.starts_at_end else log.log_start_offset
            self._output.notes.append(
                f"{self._topic}-{partition} in group {self._group_id}: the log ends at {log.log_end_offset}, below "
                f"{led.window.end_offset}, up to which it was acquired: it is taken for the log of a new topic under "
                f"the name, and read from {start_offset}"
            )
            state_epoch = led.header.state_epoch
            begin = {"partition": partition, "state_epoch": state_epoch, "start_offset": start_offset}
            led.reset(begin, self._now_ms, Cause.TOPIC_DELETED)
            self._give_up_demands(partition)
        led.move_log(log, config)

    def _look_again(self, partition: int) -> None:
        """Another config may show another end of the log."""
        led = self._led(partition)
        if led is not None and led.log is not None:
            led.move_log(led.log, self._configs.of(partition))

    def _delete(self, deletions: list[tuple[int, int, str]]) -> None:
        """Forget the states of (partition, state epoch), whether they are led here or not, and tell once it is durable.

        Said again after a start, it does no harm: whoever is initialized anew is not said to be deleted any more.
        """
        for partition, state_epoch, topic in deletions:
            self._topic = topic
            key, led = self._partition_key(partition), self._led(partition)
            if led is not None:
                led.forget()
                self._write_transitions(key, led)
            self._forget(partition)
            self._output.append("share_group_state", tombstone_row(key))
            tell_deleted(self._output, key, state_epoch)

    def _lose_topic(self, topic: str) -> None:
        """The topic is no more: what was in flight is finished, and whoever asks for it is told so."""
        self._topic = topic
        self._gone_ms = self._now_ms
        self._output.notes.append(f"topic {topic} with id {self._topic_id}, of group {self._group_id}, was deleted")
        for partition in self._here():
            led = self._led(partition)
            assert led is not None
            led.forget(Cause.TOPIC_DELETED)
            self._write_record(partition, led)
            for demand in self._demands.drop(partition):
                self._output.respond(demand_refusal(self._partition_key(partition), demand, self._is_gone()))
            self._forget(partition)
        self._take_parked()
        tell_topic_deleted(self._output, self._group_id, self._topic_id)

    def _forget(self, partition: int) -> None:
        """The share-partition is not here any more."""
        self._live.pop(partition, None)
        self._requesters.drop(partition)
        self._configs.drop(partition)
        self._give_up_demands(partition)

    def _tick(self, clock_ms: int) -> None:
        self._clock_ms = max(self._clock_ms, clock_ms)
        for partition in self._here():
            led = self._led(partition)
            assert led is not None
            led.expire(self._clock_ms, self._configs.of(partition).machine)
            led.snapshot_when_cold(self._now_ms, self._records)
        self._take_parked()
        self._departed.forget(self._clock_ms)
        if self._gone_ms is not None and self._clock_ms >= self._gone_ms + GONE_MS:
            self._gone_ms = None

    # -- requests --------------------------------------------------------------------------------------------------

    def _take_parked(self) -> None:
        for row in self._parked.take_all():
            self._take_request(row)

    def _take_request(self, row: RequestRow) -> None:
        try:
            request = decode_share_partition_request(row.value)
        except AnswerableError as error:
            self._output.reject(row, str(error))
            self._output.respond(share_partition_refusal(error.row, error.code, error.message))
            return
        except InvalidRequestRow as error:
            self._output.reject(row, str(error))
            return
        try:
            self._check_keys(request)
            responses = self._responses(row, request)
        except RequestError as error:
            if not request.reply_to:
                self._output.reject(row, str(error))
            responses = [refusal(request, error)]
        for response in responses:
            self._output.respond(response)

    def _responses(self, row: RequestRow, request: SharePartitionRequest) -> Sequence[SharePartitionResponse]:
        """Carry a request out: the responses to it, and to others that it ends. Raises RequestError."""
        if isinstance(request, ConfigureRequest):
            self._configs.set(request.partition, PartitionConfig.of_request(request.config))
            self._look_again(request.partition)
            return ()
        led = self._led(request.partition)
        if led is None:
            return self._park(row, request)
        led.expire(row.append_ms, self._configs.of(request.partition).machine)
        if isinstance(request, ReleaseMemberRequest):
            return self._release_member(row, request, led)
        self._check_member(request)
        match request:
            case FetchRequest():
                return self._demand(row, request)
            case AcknowledgeRequest():
                return (self._acknowledge(row, request, led),)
            case UnacquireRequest():
                led.unacquire(request)
                return (UnacquireResponse(*request_named(request)),)
            case _:
                assert_never(request)

    def _check_keys(self, request: SharePartitionRequest) -> None:
        """A request may name another group or topic than its key: ids that no topic has, such as ones with tabs."""
        if (request.group_id, request.topic_id) != (self._group_id, self._topic_id):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"invalid topic id {request.topic_id!r}")

    def _check_member(self, request: SharePartitionRequest) -> None:
        """A request that was on its way when its member left comes too late."""
        if self._departed.has_left(request.partition, request.member_id, request.member_epoch):
            message = f"member {request.member_id} left with epoch {request.member_epoch} or a later one"
            raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, message)

    def _park(self, row: RequestRow, request: SharePartitionRequest) -> Sequence[SharePartitionResponse]:
        """The share-partition is not here: it may come, it may be gone, or there is none."""
        if self._gone_ms is not None:
            if not isinstance(request, ReleaseMemberRequest):
                raise self._is_gone()
            return (ReleaseMemberResponse(*request_named(request)),)
        if self._parked.park(row, request, max(self._clock_ms, self._now_ms)):
            return ()
        if self._here():
            message = f"group {request.group_id} has no share-partition {request.topic}-{request.partition}"
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        message = f"group {request.group_id} has no share-partition of topic {request.topic} with id {request.topic_id}"
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, message)

    def _is_gone(self) -> RequestError:
        message = f"topic {self._topic} with id {self._topic_id} was deleted"
        return RequestError(ErrorCode.UNKNOWN_TOPIC_ID, message)

    def _acknowledge(self, row: RequestRow, request: AcknowledgeRequest, led: LedPartition) -> AcknowledgeResponse:
        config = self._configs.of(request.partition).machine
        renewed = led.acknowledge(request, row.append_ms, self._now_ms, config)
        deadline_ms = self._now_ms + config.record_lock_duration_ms if renewed else -1
        return AcknowledgeResponse(*request_named(request), acquired=renewed, lock_deadline_ms=deadline_ms)

    def _demand(self, row: RequestRow, request: FetchRequest) -> list[FetchResponse]:
        """One demand stands for each member: a new one takes the old one's place, which is answered with nothing."""
        deadline_ms = row.append_ms + request.max_wait_ms
        demand = Demand(
            request.id, request.reply_to, request.member_id, request.max_records, deadline_ms, row.append_ms
        )
        replaced = self._demands.add(request.partition, demand)
        return [self._demand_response(request.partition, old) for old in replaced]

    def _release_member(
        self, row: RequestRow, request: ReleaseMemberRequest, led: LedPartition
    ) -> list[SharePartitionResponse]:
        """Said twice, or after the member came back, it does nothing."""
        partition, member_id = request.partition, request.member_id
        has_left = self._departed.has_left(partition, member_id, request.member_epoch)
        is_old = self._requesters.has_asked_since(partition, member_id, request.opened_ms)
        is_last = self._requesters.ended(partition, member_id, request.requester)
        responses: list[SharePartitionResponse] = []
        if is_last and not (has_left or is_old):
            if request.member_epoch >= 0:
                self._departed.add(partition, member_id, request.member_epoch, row.append_ms)
            given_up = self._demands.drop_member(partition, member_id)
            responses += [self._demand_response(partition, demand) for demand in given_up]
            led.release_member(member_id, self._configs.of(partition).machine, request.delivered)
            self._requesters.forget(partition, member_id)
        return [*responses, ReleaseMemberResponse(*request_named(request))]

    # -- demands ---------------------------------------------------------------------------------------------------

    def _meet_demands(self, partition: int) -> None:
        """Give what is available to the waiting demands, first come first served, in even shares of what is new."""
        led = self._led(partition)
        if led is None:
            return
        config = self._configs.of(partition).machine
        demands, left = self._demands.at(partition), []
        for index, demand in enumerate(demands):
            acquired: tuple[AcquiredRange, ...] = ()
            if led.window.has_available(config) and not demand.is_abandoned(self._now_ms):
                share = led.fair_share(len(demands) - index, config)
                acquired = led.acquire(demand.member_id, min(demand.max_records, share), self._now_ms, config)
            if acquired:
                self._requesters.acquired(partition, demand.member_id, demand.reply_to, demand.append_ms)
                self._answer_demand(partition, demand, acquired, self._now_ms + config.record_lock_duration_ms)
            elif demand.deadline_ms <= self._now_ms:
                self._answer_demand(partition, demand)
            else:
                left.append(demand)
        self._demands.replace(partition, left)
        if left:
            self._tell_holders(partition, led, left)

    def _tell_holders(self, partition: int, led: LedPartition, waiting: Sequence[Demand]) -> None:
        """A gateway whose members hold records cannot know of those of another one who wait."""
        requesters = {demand.reply_to for demand in waiting}
        for requester in self._requesters.to_tell(partition, requesters, led.window.holds, self._now_ms):
            self._output.respond(WantedNotice("", requester, *self._partition_key(partition), ""))

    def _give_up_demands(self, partition: int) -> None:
        """The share-partition is not here any more, or not the same: its members fetch again."""
        for demand in self._demands.drop(partition):
            self._answer_demand(partition, demand)

    def _answer_demand(
        self, partition: int, demand: Demand, acquired: tuple[AcquiredRange, ...] = (), lock_deadline_ms: int = -1
    ) -> None:
        self._output.respond(self._demand_response(partition, demand, acquired, lock_deadline_ms))

    def _demand_response(
        self, partition: int, demand: Demand, acquired: tuple[AcquiredRange, ...] = (), lock_deadline_ms: int = -1
    ) -> FetchResponse:
        named = demand.id, demand.reply_to, *self._partition_key(partition), demand.member_id
        read_committed = self._configs.of(partition).read_committed
        return FetchResponse(
            *named, acquired=acquired, lock_deadline_ms=lock_deadline_ms, read_committed=read_committed
        )

    # -- the end of a run ------------------------------------------------------------------------------------------

    def _partition_key(self, partition: int) -> SharePartitionKey:
        return SharePartitionKey(self._group_id, self._topic, self._topic_id, partition)

    def _here(self) -> list[int]:
        """The share-partitions that this key leads, ascending."""
        return sorted({*self._idle, *self._live})

    def _led(self, partition: int) -> LedPartition | None:
        """The share-partition, restored if it was idle so far; None if this key does not lead it."""
        if partition not in self._live and partition in self._idle:
            self._live[partition] = LedPartition.restore(self._idle.pop(partition))
        return self._live.get(partition)

    def _write_record(self, partition: int, led: LedPartition) -> None:
        key = self._partition_key(partition)
        self._write_transitions(key, led)
        record = led.record(key, self._records, self._now_ms)
        if record is not None:
            self._output.append("share_group_state", key._asdict() | record)

    def _write_transitions(self, key: SharePartitionKey, led: LedPartition) -> None:
        for transition in led.transitions:
            self._output.append("delivery_log", log_row(key, transition))

    def _next_deadline_ms(self) -> int | None:
        deadlines = [led.next_deadline_ms(self._records) for led in self._live.values()]
        deadlines += [LedPartition.dumped_deadline_ms(dumped, self._records) for dumped in self._idle.values()]
        deadlines += [demand.deadline_ms for demand in self._demands]
        deadlines += [] if self._gone_ms is None else [self._gone_ms + GONE_MS]
        return min([*deadlines, *self._parked.deadlines_ms(), *self._departed.deadlines_ms()], default=None)
