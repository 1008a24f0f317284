"""Members that use rows, like those of other Spark jobs, each with its habits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_records import LIST_SUFFIX
from sharegroup.protocol.rows.broadcasts import (
    BROADCAST_KEY,
    Broadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
    decode_broadcast,
)
from sharegroup.protocol.rows.response_rows import decode_responses
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import (
    AcknowledgeRequest,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import LogBatch, LogRecord
from tests.simulation.brokers.log_clients import RowSender, RowTail
from tests.simulation.judges.judge import Grant, Key
from tests.simulation.members import row_adapter
from tests.simulation.world import GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES, World

_UNKNOWN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
_ANSWER_MS = 20_000
#: How long a replaced process may still send, in ms: shortly, or until after other starts of the job.
_FENCED_AFTER_MS = (200, 60_000)


@dataclass(frozen=True)
class Habits:
    """The behaviour of a member. `work_ms` is the minimum and maximum time for fetched records; the chances are of each
    acknowledgement."""

    max_records: int = 20
    work_ms: tuple[int, int] = (50, 3_000)
    release: float = 0.05
    reject: float = 0.03
    renews: bool = False
    gives_back: float = 0.02
    max_wait_ms: int = 300_000
    is_static: bool = False


@dataclass
class _Sent:
    """An acknowledgement that waits for its response, its grant and its append time."""

    request: AcknowledgeRequest
    key: Key
    counts: Mapping[int, int]
    grant: Grant | None = None
    appended_ms: int | None = None
    held: _Held | None = None


@dataclass
class _Held:
    """The records of a fetch and the member's hold on them, which may be longer while a renewal has no response."""

    acquired: tuple[AcquiredRange, ...]
    grant: Grant
    is_renewing: bool = False


class RowMember:
    """One process with one member. `member_id` may be that of an earlier process.

    A static member receives its id, and its next process continues with the records that it holds.
    """

    def __init__(self, world: World, name: str, group_id: str, topics: tuple[str, ...], habits: Habits) -> None:
        self.world, self.name, self.group_id, self.topics, self.habits = world, name, group_id, topics, habits
        self.member_id = "" if habits.is_static else name
        self.epoch = 0
        self.alive = False
        self._clock, self._judge, self._trace = world.clock, world.judge, world.trace
        self._random: Random = world.random(f"member {name}")
        self._numbers = itertools.count(1)
        self._assignment: frozenset[Key] = frozenset()
        #: The partitions assigned since the join; held records of these may be acknowledged.
        self._known: dict[tuple[str, str, int], Key] = {}
        #: A static member's unacknowledged records, also through a restart, by the first request that acquired them.
        self._held: dict[str, tuple[Key, _Held]] = {}
        self._is_back = False
        #: A static member's present process and the previous one; and when the present one was fenced.
        self._incarnation: str | None = None
        self._incarnation_before: str | None = None
        self._fenced_ms: int | None = None
        self._heartbeat_ms = 0
        #: The open requests of the previous process when it was replaced.
        self._of_the_fenced: set[str] = set()
        self._fetches: dict[Key, FetchRequest] = {}
        #: The first time at which each of them was sent.
        self._fetched_ms: dict[Key, int] = {}
        self._acknowledgements: dict[str, _Sent] = {}
        self._seen: set[str] = set()
        self._heartbeat_id = ""
        self._interval_ms = 1_000
        self._told_subscription = False
        self._sender: RowSender
        self._tail: RowTail
        self._process = 0

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, which joins."""
        self._process += 1
        self.alive = True
        self.epoch, self._told_subscription = 0, False
        self._forget()
        self._is_back = bool(self._held)
        if self.habits.is_static:
            self._incarnation_before, self._incarnation = self._incarnation, f"{self.name}-{self._process}"
        self._fenced_ms, self._of_the_fenced = None, set()
        self._sender = RowSender(self._clock, self.world.kafka, self.world.weather)
        self._tail = RowTail(
            self._clock, self.world.kafka, self.world.weather, RESPONSES, self.reply_to.encode(), self._on_row
        )
        self._heartbeat()

    def die(self) -> None:
        """Kill the process."""
        if self.alive:
            self._trace.add(self.name, "dies")
            self._stop()

    def leave(self) -> None:
        """Leave the group and end."""
        if self.alive:
            self._judge.session_over(self.group_id, self.identity)
            self._held = {}
            self.epoch = -1
            self._send_heartbeat()
            self._stop()

    def _restart(self, delay_ms: int) -> None:
        """End a static member's process, in order or not, and start the next one."""
        if self._random.random() < 0.5:
            self.die()
        else:
            self.epoch = -2
            self._send_heartbeat()
            self._stop()
        self._clock.after(delay_ms, self._start_again)

    def _start_again(self) -> None:
        if not self.alive and self.world.has("static_members"):
            self.start()

    def _stop(self) -> None:
        self.alive = False
        self._process += 1
        self._sender.close()
        self._tail.close()

    @property
    def identity(self) -> str:
        """Return the identity of the member through all its processes."""
        return self.name if self.habits.is_static else self.member_id

    @property
    def reply_to(self) -> str:
        """Return the key of its responses; every second process accepts several in a record."""
        return f"to-{self.name}-{self._process}{LIST_SUFFIX if self._process % 2 else ''}"

    def _in_a_while(self, delay_ms: float, action: object) -> None:
        """Act after a delay, unless the process has ended by then."""
        process = self._process
        self._clock.after(delay_ms, lambda: action() if self._process == process else None)  # type: ignore[operator]

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        self._send_heartbeat()
        sent = self._heartbeat_id
        self._in_a_while(_ANSWER_MS / 2, lambda: self._heartbeat() if self._heartbeat_id == sent else None)

    def _send_heartbeat(self) -> None:
        view = self.world.kafka.metadata(self._metadata_lag_ms())
        known = {
            name: TopicMetadata(view[name].topic_id, len(view[name].leaders)) for name in self.topics if name in view
        }
        is_full = not self._told_subscription or self.epoch == 0
        request = HeartbeatRequest(
            self._next_id(),
            self.group_id,
            self.reply_to if self.epoch >= 0 else "",
            member_id=self.member_id,
            member_epoch=self.epoch,
            client_id=self.name,
            subscribed_topic_names=self.topics if is_full and self.epoch >= 0 else None,
            topics=known,
            group_instance_id=self.name if self.habits.is_static else None,
            incarnation_id=self._incarnation,
        )
        self._heartbeat_id, self._heartbeat_ms = request.id, self._clock.now_ms
        self._judge.wants(self.group_id, [topic.topic_id for topic in known.values()])
        if is_full:
            self._trace.add(self.name, f"joins {self.group_id}: {', '.join(sorted(known))}")
        elif self.epoch < 0:
            self._trace.add(self.name, f"leaves {self.group_id}{' for a restart' if self.epoch == -2 else ''}")
        identity = self.identity
        session_ms = self.world.session_timeout_ms(self.group_id, self.habits.is_static)

        def appended(answer: object) -> None:
            if isinstance(answer, LogBatch) and request.member_epoch != -1:
                self._judge.heartbeat_appended(self.group_id, identity, answer.append_ms, session_ms)

        self._sender.send(GROUP_REQUESTS, request.kafka_key, request.encode(), appended)

    def _on_heartbeat(self, response: HeartbeatResponse) -> None:
        if response.id != self._heartbeat_id:
            return
        self._heartbeat_id = ""
        if response.error_code:
            self._trace.add(self.name, f"heartbeat refused: {ErrorCode(response.error_code).name}")
            if response.error_code in _UNKNOWN:
                self._judge.session_over(self.group_id, self.identity)
                self.epoch, self._told_subscription = 0, False
                self._fenced_ms = None  # it joins again, and replaces the process that had replaced it
                self._forget()
                self._held, self._is_back = {}, False
                self.member_id = "" if self.habits.is_static else self.member_id
            if response.error_code == ErrorCode.FENCED_INSTANCE_ID:  # a join of an earlier process arrived late
                self._restart(1_000)
            self._in_a_while(1_000, self._heartbeat)
            return
        if self.habits.is_static:
            self.member_id = response.member_id
        if self._fenced_ms is not None and self._heartbeat_ms > self._fenced_ms:
            self._judge.violate("only who is replaced is fenced", f"{self._incarnation} is the member, and was fenced")
        self.epoch, self._told_subscription = response.member_epoch, True
        if response.assignment is not None:
            self._assigned(response)
        if self._is_back:
            self._go_on()
        self._in_a_while(response.heartbeat_interval_ms, self._heartbeat)

    def _forget(self) -> None:
        self._assignment = frozenset()
        self._known, self._fetches, self._acknowledgements = {}, {}, {}

    def _assigned(self, response: HeartbeatResponse) -> None:
        keys = {
            Key(self.group_id, topic, topic_id, partition)
            for topic, topic_id, partitions in row_adapter.assigned_topics(response)
            for partition in partitions
        }
        self._trace.add(self.name, lambda: f"is assigned {', '.join(sorted(map(str, keys))) or 'nothing'}")
        self._assignment = frozenset(keys)
        self._known |= {row_adapter.response_key(key): key for key in keys}
        for key in [key for key in self._fetches if key not in keys]:
            del self._fetches[key]
        for key in sorted(keys):
            if key not in self._fetches:
                self._in_a_while(self._random.uniform(0, 200), lambda key=key: self._fetch(key))

    def _go_on(self) -> None:
        """Handle records acquired by an earlier process, which the member still holds."""
        self._is_back = False
        goes_on = list(self._held.values())
        if self._random.random() < 0.3:
            delay_ms = self._random.uniform(0, self._random.choice(_FENCED_AFTER_MS))
            self._in_a_while(delay_ms, lambda: self._fenced_process_goes_on(goes_on))
        for key, held in goes_on:
            self._known[row_adapter.response_key(key)] = key
            self._trace.add(self.name, f"goes on with {key} {_ranges(held.acquired)}", str(key))
            work_ms = self._random.uniform(*self.habits.work_ms)
            self._in_a_while(work_ms, lambda key=key, held=held: self._acknowledge(key, held))

    def _fenced_process_goes_on(self, goes_on: list[tuple[Key, _Held]]) -> None:
        """Acknowledge the records of the previous process, which still runs although another one is the member now."""
        for key, held in goes_on:
            batches = tuple(AcknowledgementBatch(*a[:2], (AcknowledgeType.REJECT,)) for a in held.acquired)
            named = row_adapter.named(
                self._next_id(), key, self.member_id, self.epoch, self.reply_to, self._incarnation_before
            )
            self._of_the_fenced.add(named[0])
            self._trace.add(self.name, f"its process before rejects {_ranges(held.acquired)}", str(key))
            self._send(AcknowledgeRequest(*named, batches=batches, acquired=held.acquired))

    # -- records ---------------------------------------------------------------------------------------------------

    def _fetch(self, key: Key) -> None:
        if key in self._fetches or key not in self._assignment:
            return
        max_wait_ms = self.habits.max_wait_ms
        request = FetchRequest(
            *self._named(key), max_records=self.habits.max_records, max_wait_ms=max_wait_ms,
            is_static=self.habits.is_static and not self.habits.renews,
        )  # fmt: skip
        self._fetches[key], self._fetched_ms[key] = request, self._clock.now_ms
        self._send(request)
        self._in_a_while(max_wait_ms + _ANSWER_MS, lambda: self._fetch_again(key, request))

    def _fetch_again(self, key: Key, request: FetchRequest) -> None:
        """Send a fetch again after a missing response; records that the old one acquires later are returned."""
        if self._fetches.get(key) is request:
            del self._fetches[key]
            self._fetch(key)

    def _on_fetched(self, response: FetchResponse) -> None:
        key = self._known.get(row_adapter.response_key(response))
        sent = self._fetches.get(key) if key else None
        is_mine = key is not None and sent is not None and sent.id == response.id
        if is_mine:
            assert key is not None
            del self._fetches[key]
        if response.error_code:
            if key is not None:
                self._trace.add(self.name, f"fetch {key} refused: {response.error_code}", str(key))
            if is_mine:
                self._in_a_while(2_000, lambda: None if key is None else self._fetch(key))
        elif response.acquired:
            if key is None:
                return
            if not is_mine or self._random.random() < self.habits.gives_back:
                self._give_back(key, response.acquired)
                self._in_a_while(1_000, lambda: self._fetch(key))
                return
            self._deliver(key, response)
        elif is_mine:
            self._in_a_while(self._random.uniform(1, 50), lambda: None if key is None else self._fetch(key))

    def _deliver(self, key: Key, response: FetchResponse) -> None:
        acquired = response.acquired
        self._trace.add(
            self.name,
            f"gets {key} {_ranges(acquired)} until {_seconds(self, response.lock_deadline_ms)}",
            str(key),
        )
        shortest_ms = self.world.shortest_lock_ms(self.group_id)
        self._judge.is_whole_lock(key, response.lock_deadline_ms, self._fetched_ms[key], shortest_ms)
        self._judge.delivered(self.identity, key, acquired, response.lock_deadline_ms, response.id)
        held = _Held(acquired, self._judge.grant(self.group_id, self.identity, response.lock_deadline_ms))
        work_ms = self._random.uniform(*self.habits.work_ms)
        if self.habits.is_static:
            self._work_through_restarts(key, held, response.id, work_ms)
        left_ms = response.lock_deadline_ms - self._clock.now_ms
        if self.habits.renews and work_ms > 0.6 * left_ms:
            self._in_a_while(0.6 * max(0, left_ms), lambda: self._renew(key, held))
        self._in_a_while(work_ms, lambda: self._acknowledge(key, held))

    def _work_through_restarts(self, key: Key, held: _Held, response_id: str, work_ms: float) -> None:
        """Handle records of a static member, which are locked through its restarts by their fetch or a renewal."""
        self._held[response_id] = key, held
        if self.habits.renews:
            self._renew(key, held)
        if self.world.has("static_members") and self._random.random() < 0.2:
            delay_ms = self._random.choice((0, 1_000, 30_000, 120_000))
            self._in_a_while(self._random.uniform(0, work_ms), lambda: self._restart(delay_ms))

    def _give_back(self, key: Key, acquired: tuple[AcquiredRange, ...]) -> None:
        self._trace.add(self.name, f"gives back {key} {_ranges(acquired)}", str(key))
        self._send(UnacquireRequest(*self._named(key, ""), acquired=acquired))

    def _acknowledge(self, key: Key, held: _Held) -> None:
        if row_adapter.response_key(key) not in self._known:
            return
        self._held = {id_: item for id_, item in self._held.items() if item[1] is not held}
        acquired, grant = held.acquired, held.grant
        batches = tuple(self._batch(first, last) for first, last, _ in acquired)
        counts = {offset: count for first, last, count in acquired for offset in range(first, last + 1)}
        request = AcknowledgeRequest(
            *self._named(key), batches=batches, acquired=acquired, lock_deadline_ms=grant.deadline_ms
        )
        self._trace.add(self.name, f"acknowledges {key} {_acks(batches)}", str(key))
        self._judge.acknowledges(self.identity, key, batches)
        sent = self._acknowledgements[request.id] = _Sent(request, key, counts, grant, held=held)

        def appended(answer: object) -> None:
            if isinstance(answer, LogBatch):
                sent.appended_ms = answer.append_ms

        self._sender.send(PARTITION_REQUESTS, request.kafka_key, request.encode(), appended, may_repeat=True)
        self._in_a_while(self._random.uniform(1, 100), lambda: self._fetch(key))

    def _renew(self, key: Key, held: _Held) -> None:
        acquired = held.acquired
        batches = tuple(AcknowledgementBatch(a.first_offset, a.last_offset, (AcknowledgeType.RENEW,)) for a in acquired)
        deadline_ms = held.grant.deadline_ms
        request = AcknowledgeRequest(
            *self._named(key), batches=batches, acquired=acquired, lock_deadline_ms=deadline_ms, is_renew_ack=True,
            is_static=self.habits.is_static,
        )  # fmt: skip
        self._acknowledgements[request.id] = _Sent(request, key, {}, held=held)
        held.is_renewing = True
        self._send(request)

    def _batch(self, first: int, last: int) -> AcknowledgementBatch:
        chance = self._random.random()
        if chance < self.habits.release:
            return AcknowledgementBatch(first, last, (AcknowledgeType.RELEASE,))
        if chance < self.habits.release + self.habits.reject:
            return AcknowledgementBatch(first, last, (AcknowledgeType.REJECT,))
        if chance > 0.9 and last > first:
            kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
            return AcknowledgementBatch(
                first, last, tuple(int(self._random.choice(kinds)) for _ in range(first, last + 1))
            )
        return AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,))

    def _on_acknowledged(self, response: AcknowledgeResponse) -> None:
        if response.id in self._of_the_fenced and not response.error_code:
            self._judge.violate("a fenced process is refused", f"{self._incarnation_before} acknowledged")
        sent = self._acknowledgements.pop(response.id, None)
        if sent is None:
            return
        request, key = sent.request, sent.key
        if response.error_code:
            name = ErrorCode(response.error_code).name
            if response.error_code == ErrorCode.FENCED_INSTANCE_ID:  # the next heartbeat must be fenced too
                self._fenced_ms = self._clock.now_ms
            elif sent.grant is not None:
                told, appended_ms = _acks(request.batches), sent.appended_ms
                self._judge.acknowledgement_refused(key, told, sent.grant, appended_ms, name)
            self._trace.add(self.name, f"acknowledgement of {key} {_acks(request.batches)} refused: {name}", str(key))
        elif request.is_renew_ack:
            self._judge.renewed(self.identity, key, response.acquired, response.lock_deadline_ms)
            if sent.held is not None and _offsets(response.acquired) >= _offsets(sent.held.acquired):
                sent.held.is_renewing = False
                sent.held.grant = sent.held.grant._replace(deadline_ms=response.lock_deadline_ms)
        else:
            self._trace.add(self.name, f"acknowledgement of {key} {_acks(request.batches)} OK", str(key))
            self._judge.acknowledged_ok(self.identity, key, request.batches, sent.counts)
            if sent.grant and sent.appended_ms is not None and sent.held and not sent.held.is_renewing:
                # An earlier renewal may have been decided since it was sent.
                self._judge.is_in_time(key, _acks(request.batches), sent.held.grant, sent.appended_ms)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _on_row(self, append_ms: int, record: LogRecord) -> None:
        if record.key == BROADCAST_KEY.encode():
            self._on_broadcast(decode_broadcast(record.value))
            return
        if record.key != self.reply_to.encode():
            return
        for response in decode_responses(record.value):
            if isinstance(response, HeartbeatResponse):
                self._on_heartbeat(response)
            elif response.id not in self._seen:
                self._seen.add(response.id)
                if isinstance(response, FetchResponse):
                    self._on_fetched(response)
                elif isinstance(response, AcknowledgeResponse):
                    self._on_acknowledged(response)

    def _on_broadcast(self, row: Broadcast) -> None:
        if isinstance(row, NewLeaderBroadcast):
            for request in self._fetches.values():
                self._send(request)
        elif isinstance(row, TopicDeletedBroadcast):
            for found, key in [(found, key) for found, key in self._known.items() if key.topic_id == row.topic_id]:
                del self._known[found]
                self._assignment -= {key}
                self._fetches.pop(key, None)

    def _named(self, key: Key, reply_to: str | None = None) -> row_adapter.Named:
        answered_to = self.reply_to if reply_to is None else reply_to
        return row_adapter.named(self._next_id(), key, self.member_id, self.epoch, answered_to, self._incarnation)

    def _send(self, request: SharePartitionRequest) -> None:
        # A duplicate of a returned range could not be distinguished from the next acquired range of the same count.
        may_repeat = not isinstance(request, UnacquireRequest)
        self._sender.send(PARTITION_REQUESTS, request.kafka_key, request.encode(), may_repeat=may_repeat)

    def _next_id(self) -> str:
        return f"{self.name}-{self._process}-{next(self._numbers)}"

    def _metadata_lag_ms(self) -> int:
        if not self.world.has("slow_metadata"):
            return 0
        return self._random.choice((0, 0, 1_000, 20_000))


def _seconds(member: RowMember, time_ms: int) -> str:
    return f"{(time_ms - member.world.clock.start_ms) / 1000:.3f}"


def _offsets(acquired: tuple[AcquiredRange, ...]) -> set[int]:
    return {offset for first, last, _ in acquired for offset in range(first, last + 1)}


def _ranges(acquired: tuple[AcquiredRange, ...]) -> str:
    return ", ".join(f"{first}..{last} ({count})" for first, last, count in acquired)


def _acks(batches: tuple[AcknowledgementBatch, ...]) -> str:
    names = ("gap", "accept", "release", "reject", "renew")
    return ", ".join(
        f"{first}..{last} {'/'.join(dict.fromkeys(names[kind] for kind in kinds))}" for first, last, kinds in batches
    )
