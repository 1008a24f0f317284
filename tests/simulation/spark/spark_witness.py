"""The judge's view of a Spark member over all of its processes: its rows, and the batches that it begins.

A record counts as delivered when a batch begins with it, because nobody has seen records that are returned before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sharegroup.errors import ErrorCode
from sharegroup.member.member_logic import Request
from sharegroup.member.ranges import OfferedBatch
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    SharePartitionResponse,
)
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from sharegroup.types import AcknowledgementBatch
from tests.simulation.brokers.kafka_log import LogBatch
from tests.simulation.brokers.log_clients import OnAppended
from tests.simulation.judges.judge import Grant, Key
from tests.simulation.world import World

_UNKNOWN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class _Sent:
    """An acknowledgement that waits for its response, and the time of its first append."""

    request: AcknowledgeRequest
    key: Key
    appended_ms: int | None = None


class SparkWitness:
    """The reports to the judge about one Spark member: its acquired ranges and its acknowledgements."""

    def __init__(self, world: World, group_id: str, member_id: str, is_static: bool = False) -> None:
        self._world, self._judge, self._trace = world, world.judge, world.trace
        self.group_id, self.member_id, self._is_static = group_id, member_id, is_static
        #: The generation at the time of each fetch.
        self._asked: dict[str, int] = {}
        self._fetched: set[str] = set()
        self._acknowledgements: dict[str, _Sent] = {}
        self._renewals: dict[str, _Sent] = {}
        #: By offset, with the delivery count.
        self._grants: dict[Key, dict[int, tuple[int, Grant]]] = {}
        #: (offset, delivery count) of successful acknowledgements.
        self._settled: dict[Key, set[tuple[int, int]]] = {}
        #: The number of rows that acknowledge them.
        self._rows: dict[Key, Counter[tuple[int, int]]] = {}

    def tells(self, text: str, batch: AcquiredBatch | None = None) -> None:
        """Add a line to the trace."""
        named = batch.ranges if batch is not None else ()
        about = {str(Key(self.group_id, *held.share_partition)) for held in named}
        self._trace.add(self.member_id, text, *sorted(about))

    # -- rows ------------------------------------------------------------------------------------------------------

    def sends(self, request: Request) -> OnAppended:
        """Report a row that is about to be sent; return the callback for its append."""
        match request:
            case HeartbeatRequest():
                return self._heartbeat(request)
            case AcknowledgeRequest():
                return self._acknowledgement(request)
            case FetchRequest():
                self._asked.setdefault(request.id, self._judge.generation(self.group_id, self.member_id))
        return lambda answer: None

    def hears(self, response: Response) -> None:
        """Report a response that the member reads."""
        match response:
            case HeartbeatResponse() if response.error_code in _UNKNOWN:
                self._trace.add(self.member_id, f"heartbeat refused: {ErrorCode(response.error_code).name}")
                self._judge.session_over(self.group_id, self.member_id)
            case FetchResponse() if response.id not in self._fetched:
                self._fetched.add(response.id)
                self._take_grant(response)  # of an earlier process too, because that grant releases it
            case AcknowledgeResponse() if response.id in self._renewals:
                self._renewed(self._renewals[response.id], response)
            case AcknowledgeResponse() if response.acquired:
                self._renewed_again(response)
            case AcknowledgeResponse() if response.id in self._acknowledgements:
                self._acknowledged(self._acknowledgements.pop(response.id), response)

    def _heartbeat(self, request: HeartbeatRequest) -> OnAppended:
        if request.member_epoch == -1:
            self._trace.add(self.member_id, f"leaves {self.group_id}")
            self._judge.session_over(self.group_id, self.member_id)
            return lambda answer: None
        if request.member_epoch == 0:
            self._trace.add(self.member_id, f"joins {self.group_id}: {', '.join(sorted(request.topics))}")
        self._judge.wants(self.group_id, [topic.topic_id for topic in request.topics.values()])
        session_ms = self._world.session_timeout_ms(self.group_id, self._is_static)

        def appended(answer: object) -> None:
            if isinstance(answer, LogBatch):
                self._judge.heartbeat_appended(self.group_id, self.member_id, answer.append_ms, session_ms)

        return appended

    def _acknowledgement(self, request: AcknowledgeRequest) -> OnAppended:
        waiting = self._renewals if request.is_renew_ack else self._acknowledgements
        sent = waiting.setdefault(request.id, _Sent(request, _key(request)))
        self._trace.add(self.member_id, f"acknowledges {sent.key} {_acks(request.batches)}", str(sent.key))
        if not request.is_renew_ack:
            self._rows.setdefault(sent.key, Counter()).update(_counts(request).items())
            self._judge.acknowledges(self.member_id, sent.key, request.batches)

        def appended(answer: object) -> None:
            if isinstance(answer, LogBatch) and sent.appended_ms is None:
                sent.appended_ms = answer.append_ms

        return appended

    # -- responses -------------------------------------------------------------------------------------------------

    def _take_grant(self, response: FetchResponse | AcknowledgeResponse) -> None:
        generation = self._asked.get(response.id)
        grant = self._judge.grant(self.group_id, self.member_id, response.lock_deadline_ms, generation)
        known = self._grants.setdefault(_key(response), {})
        for first, last, count in response.acquired:
            known.update((offset, (count, grant)) for offset in range(first, last + 1))

    def _renewed(self, sent: _Sent, response: AcknowledgeResponse) -> None:
        """Handle a renewal's response, which also decides earlier renewals."""
        for request_id in [at for at, old in self._renewals.items() if old.key == sent.key]:
            del self._renewals[request_id]
            if request_id == response.id:
                break
        if response.error_code:
            name = ErrorCode(response.error_code).name
            self._trace.add(self.member_id, f"renewal of {sent.key} refused: {name}", str(sent.key))
            return
        self._judge.renewed(self.member_id, sent.key, response.acquired, response.lock_deadline_ms)
        self._take_grant(response)

    def _renewed_again(self, response: AcknowledgeResponse) -> None:
        """Handle a further response to a renewal whose row was repeated: each row extends the locks."""
        key, deadline_ms = _key(response), response.lock_deadline_ms
        self._judge.renewed(self.member_id, key, response.acquired, deadline_ms)
        known = self._grants.setdefault(key, {})
        for first, last, count in response.acquired:
            for offset in range(first, last + 1):
                held, grant = known.get(offset, (0, None))
                if grant is not None and held == count and grant.deadline_ms < deadline_ms:
                    known[offset] = count, grant._replace(deadline_ms=deadline_ms)

    def _acknowledged(self, sent: _Sent, response: AcknowledgeResponse) -> None:
        request, key, told = sent.request, sent.key, _acks(sent.request.batches)
        counts = _counts(request)
        grants = [self._grant(key, offset, counts) for offset in _offsets(request.batches)]
        known = [grant for grant in grants if grant is not None]
        if response.error_code:
            name = ErrorCode(response.error_code).name
            self._trace.add(self.member_id, f"acknowledgement of {key} {told} refused: {name}", str(key))
            # A fenced process ends, and the next one continues. Acknowledgements of a process whose responses the next
            # one has not read may be discarded by it. A row that follows another one finds the records acknowledged if
            # retention deleted the response to the first.
            is_settled = not self._settled.get(key, set()).isdisjoint(counts.items())
            is_fenced = response.error_code == ErrorCode.FENCED_INSTANCE_ID
            is_unread = "responses_trimmed" in self._world.faults and any(
                self._rows[key][pair] > 1 for pair in counts.items()
            )
            if len(known) == len(grants) and not is_fenced and not is_settled and not is_unread:
                first = min(known, key=lambda grant: (grant.generation, grant.deadline_ms))
                self._judge.acknowledgement_refused(key, told, first, sent.appended_ms, name)
            return
        self._trace.add(self.member_id, f"acknowledgement of {key} {told} OK", str(key))
        self._judge.acknowledged_ok(self.member_id, key, request.batches, counts)
        self._settled.setdefault(key, set()).update(counts.items())
        is_renewing = any(renewal.key == key for renewal in self._renewals.values())
        if sent.appended_ms is not None and len(known) == len(grants) and not is_renewing:
            last = max(known, key=lambda grant: grant.deadline_ms)
            self._judge.is_in_time(key, told, last, sent.appended_ms)

    def _grant(self, key: Key, offset: int, counts: dict[int, int]) -> Grant | None:
        """Return what the member acquired with that delivery count, if it is known."""
        count, grant = self._grants.get(key, {}).get(offset, (0, None))
        return grant if counts.get(offset) == count else None

    # -- batches ---------------------------------------------------------------------------------------------------

    def begins(self, offered: OfferedBatch, batch: AcquiredBatch) -> None:
        """Report that a batch begins, possibly again."""
        name = f"{offered.incarnation}-{offered.seq}"
        for held in batch.ranges:
            key = Key(self.group_id, *held.share_partition)
            told = f"{held.first_offset}..{held.last_offset} ({held.delivery_count})"
            self._trace.add(self.member_id, f"begins batch {batch.batch_id}, {name}: {key} {told}", str(key))
            _, grant = self._grants.get(key, {}).get(held.first_offset, (0, None))
            if grant is not None:
                grant = grant._replace(deadline_ms=held.lock_deadline_ms)
            self._judge.delivered(self.member_id, key, [held.acquired_range], held.lock_deadline_ms, name, grant)


def _counts(request: AcknowledgeRequest) -> dict[int, int]:
    """Return the delivery counts of an acknowledgement by offset."""
    return {offset: count for first, last, count in request.acquired for offset in range(first, last + 1)}


def _key(named: SharePartitionRequest | SharePartitionResponse) -> Key:
    return Key(named.group_id, named.topic, named.topic_id, named.partition)


def _offsets(batches: tuple[AcknowledgementBatch, ...]) -> Iterator[int]:
    for batch in batches:
        yield from range(batch.first_offset, batch.last_offset + 1)


def _acks(batches: tuple[AcknowledgementBatch, ...]) -> str:
    names = ("gap", "accept", "release", "reject", "renew")
    return ", ".join(
        f"{first}..{last} {'/'.join(dict.fromkeys(names[kind] for kind in kinds))}" for first, last, kinds in batches
    )
