"""A share consumer's session with one broker's port at one gateway, as Java's ShareSessionHandler keeps it.

One request is in progress at a time. Acknowledgements are sent with the next fetch, or by themselves. If the session
must be opened again, they cannot be sent and are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.record_batches import read_batches
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sharegroup.protocol.topic_ids import parse_topic_id, topic_id_text
from sharegroup.types import AcknowledgementBatch, AcquiredRange
from tests.simulation.gateway.gateway_batch_bytes import record_offsets
from tests.simulation.wire.wire_connection import Answer, Connection, ConnectionLostError
from tests.simulation.wire.wire_observer import Acknowledgement, Delivery, Observer, Place

VERSION = 2
FINAL_EPOCH = -1

Batches = dict[Place, list[AcknowledgementBatch]]


class FetchSize(NamedTuple):
    """MaxRecords, MaxWaitMs and the acquire mode (record_limit) of a ShareFetch."""

    max_records: int
    max_wait_ms: int
    is_record_limit: bool


class FetchResult(NamedTuple):
    """The result of a fetch; `code` is the request's error or one of its partitions', None for a lost connection."""

    deliveries: list[Delivery]
    code: int | None


class NodeSession:
    """The consumer's state of a session: the epoch, partitions, acknowledgements. `pending` are the types of
    acknowledged offsets that wait for a request. `name` identifies a static member to the observer; the records that it
    holds outlive its connections."""

    def __init__(
        self,
        member_id: str,
        group_id: str,
        connection: Connection,
        observer: Observer,
        numbers: Iterator[int],
        now_ms: Callable[[], int],
        name: str = "",
    ) -> None:
        self._member_id, self._group_id, self._now_ms = member_id, group_id, now_ms
        self._is_static, self._identity = bool(name), name or member_id
        self.connection, self._observer, self._numbers = connection, observer, numbers
        self._turn = asyncio.Lock()
        self.epoch = 0
        self.partitions: dict[Place, None] = {}
        self.pending: dict[Place, dict[int, int]] = {}
        connection.on_end = self._ended

    # -- requests ------------------------------------------------------------------------------------------------------

    async def fetch(self, wanted: Sequence[Place], size: FetchSize) -> FetchResult:
        """Fetch from these partitions; the request includes pending acknowledgements."""
        async with self._turn:
            acknowledged = self._take_pending(False)
            new = [place for place in wanted if place not in self.partitions]
            gone = [place for place in self.partitions if place not in wanted]
            named_alone = [place for place in acknowledged if place not in wanted]
            request = ShareFetchRequest(
                group_id=self._group_id,
                member_id=self._member_id,
                share_session_epoch=self.epoch,
                max_wait_ms=size.max_wait_ms,
                min_bytes=1,
                max_bytes=2**31 - 1,
                max_records=size.max_records,
                batch_size=size.max_records,
                share_acquire_mode=1 if size.is_record_limit else 0,
                is_renew_ack=False,
                topics=_topics(ShareFetchRequest.FetchTopic, "FetchPartition", [*new, *acknowledged], acknowledged),
                forgotten_topics_data=[
                    ShareFetchRequest.ForgottenTopic(topic_id=parse_topic_id(topic_id), partitions=partitions)
                    for topic_id, partitions in _by_topic(dict.fromkeys([*gone, *named_alone])).items()
                ],
            )
            if self.epoch == 0:
                self._observer.let_go(self._identity, wanted, "opens a session")
            sent = self._sent(acknowledged, False)
            answer = await self._ask(request, sent)
            if answer is None:
                return FetchResult([], None)
            response = answer.message
            if response.error_code:
                self._failed(sent, response.error_code)
                return FetchResult([], response.error_code)
            self._go_on()
            self.partitions = dict.fromkeys(wanted)
            codes = {place: part.acknowledge_error_code for place, part in parts_of(self._group_id, response)}
            for acknowledgement in sent:
                self._observer.acknowledge_answered(acknowledgement, codes.get(acknowledgement.place, 0), 0)
            faults = [part.error_code for _, part in parts_of(self._group_id, response) if part.error_code]
            return FetchResult(list(self._deliveries(answer)), faults[0] if faults else 0)

    async def acknowledge(self, is_renewal: bool = False, is_last: bool = False) -> None:
        """Send pending acknowledgements by themselves; `is_last` ends the session."""
        async with self._turn:
            acknowledged = self._take_pending(is_renewal)
            if self.epoch == 0 or not (acknowledged or is_last):
                return
            request = ShareAcknowledgeRequest(
                group_id=self._group_id,
                member_id=self._member_id,
                share_session_epoch=FINAL_EPOCH if is_last else self.epoch,
                is_renew_ack=is_renewal,
                topics=_topics(
                    ShareAcknowledgeRequest.AcknowledgeTopic, "AcknowledgePartition", acknowledged, acknowledged
                ),
            )
            if is_last:
                self._observer.let_go(self._identity, list(self.partitions), "ends its session")
            sent = self._sent(acknowledged, is_renewal)
            answer = await self._ask(request, sent)
            if answer is None:
                return
            response: ShareAcknowledgeResponse = answer.message
            if response.error_code:
                self._failed(sent, response.error_code)
                return
            self._go_on()
            codes = {place: part.error_code for place, part in parts_of(self._group_id, response)}
            for acknowledgement in sent:
                code = codes.get(acknowledgement.place, 0)
                self._observer.acknowledge_answered(acknowledgement, code, response.acquisition_lock_timeout_ms)
            if is_last:
                self._reset()

    def lost(self, seen_after_ms: float = 0.0) -> None:
        """End the connection, because the client is gone or moves."""
        self.connection.close(seen_after_ms)

    # -- session -------------------------------------------------------------------------------------------------------

    def _take_pending(self, is_renewal: bool) -> Batches:
        """Remove and return the acknowledgements that can be sent now."""
        pending, self.pending = self.pending, {}
        return {place: list(_batches(types)) for place, types in pending.items()} if self.epoch else {}

    def _sent(self, acknowledged: Batches, is_renewal: bool) -> list[Acknowledgement]:
        sent = [
            Acknowledgement(next(self._numbers), place, self._identity, tuple(batches), is_renewal, self._now_ms())
            for place, batches in acknowledged.items()
        ]
        for acknowledgement in sent:
            self._observer.acknowledge_sent(acknowledgement)
        return sent

    async def _ask(self, request: Any, sent: Iterable[Acknowledgement]) -> Answer | None:
        try:
            return await self.connection.ask(request, VERSION)
        except ConnectionLostError:
            self._failed(sent, None)
            return None
        except asyncio.CancelledError:
            self._ended()  # it closes its connection or opens the session again
            self._failed(sent, None)
            raise

    def _failed(self, sent: Iterable[Acknowledgement], code: int | None) -> None:
        for acknowledgement in sent:
            self._observer.acknowledge_answered(acknowledgement, code, 0)
        self._reset()

    def _go_on(self) -> None:
        self.epoch = 1 if self.epoch == 2**31 - 1 else self.epoch + 1

    def _reset(self) -> None:
        """Reset the session, so that the next fetch opens one."""
        self.epoch = 0
        self.partitions = {}

    def _ended(self) -> None:
        if self.epoch and not self._is_static:
            self._observer.let_go(self._identity, list(self.partitions), "its connection ends")

    # -- records -------------------------------------------------------------------------------------------------------

    def _deliveries(self, answer: Answer) -> Iterator[Delivery]:
        for delivery in deliveries_in(answer, self._group_id, self._identity):
            self._observer.delivered(delivery)
            yield delivery


def deliveries_in(answer: Answer, group_id: str, member_id: str) -> Iterator[Delivery]:
    """Yield what a ShareFetch response delivers."""
    lock_end_ms = answer.made_ms + answer.message.acquisition_lock_timeout_ms
    for place, part in parts_of(group_id, answer.message):
        acquired = tuple(AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in part.acquired_records)
        if acquired:
            records = tuple(_records_of(part.records, acquired))
            yield Delivery(place, member_id, acquired, records, answer.made_ms, lock_end_ms)


def _records_of(data: bytes, acquired: Sequence[AcquiredRange]) -> Iterator[int]:
    """Yield the offsets of `acquired` with a record; other records of the batches are not the client's."""
    there = {
        offset for batch in read_batches(data, 0) for offset in ([] if batch.is_control else record_offsets(batch.data))
    }
    for first, last, _ in acquired:
        for offset in range(first, last + 1):
            if offset in there:
                yield offset


def _batches(types: Mapping[int, int]) -> Iterator[AcknowledgementBatch]:
    """Yield a batch for each run of offsets: one type, or one for each of them."""
    offsets = sorted(types)
    start = 0
    for at, offset in enumerate(offsets):
        if at + 1 == len(offsets) or offsets[at + 1] != offset + 1:
            run = offsets[start : at + 1]
            kinds = tuple(types[o] for o in run)
            yield AcknowledgementBatch(run[0], run[-1], kinds if len(set(kinds)) > 1 else kinds[:1])
            start = at + 1


def parts_of(group_id: str, response: ShareFetchResponse | ShareAcknowledgeResponse) -> Iterator[tuple[Place, Any]]:
    """Yield the partitions of a response."""
    for topic in response.responses:
        text = topic_id_text(topic.topic_id)
        for part in topic.partitions:
            yield Place(group_id, text, part.partition_index), part


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic_id, []).append(place.partition)
    return topics


def _topics(
    topic: Any, partition: str, places: Iterable[Place], acknowledged: Mapping[Place, Sequence[AcknowledgementBatch]]
) -> list[Any]:
    """Return the Topics of a request."""
    part = getattr(topic, partition)
    found: dict[UUID, list[Any]] = {}
    for place in dict.fromkeys(places):
        batches = [
            part.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged.get(place, ())
        ]
        found.setdefault(parse_topic_id(place.topic_id), []).append(
            part(partition_index=place.partition, acknowledgement_batches=batches)
        )
    return [topic(topic_id=topic_id, partitions=parts) for topic_id, parts in found.items()]


#: Errors after which a client refreshes its metadata.
STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
