"""The reports of share consumers, converted for the judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.judges.judge import Judge, Key
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.wire.wire_observer import Acknowledgement, Delivery, Place

#: How far the job's latest estimate of the brokers' time may be ahead, in ms: the duration of a slow probe.
AHEAD_MS = 1_500


class _Seen(NamedTuple):
    """A record as a member received it: its delivery count, and the time when its lock has certainly expired, by the
    brokers' clock; None while the result of a renewal is unknown."""

    delivery_count: int
    over_ms: int | None


class Witness:
    """An `Observer`. `session_ms` is the session timeout of a group; `longest_lock_ms` and `shortest_lock_ms` are the
    limits of its lock durations.

    The judge requires the delivery that an acknowledgement is for, which Kafka's protocol does not contain. It is the
    newest one that the member had received when it sent the acknowledgement.

    A response contains the remaining time of its shortest lock. The job's deadline of other records may be later,
    because they were acquired later, but all were acquired before the response was created. So a lock has certainly
    expired when the longest one that begins with the response has, and `AHEAD_MS` more.
    """

    def __init__(
        self,
        clock: Scheduler,
        trace: Trace,
        kafka: SimulatedKafka,
        judge: Judge,
        session_ms: Callable[[str], int],
        longest_lock_ms: Callable[[str], int],
        shortest_lock_ms: Callable[[str], int],
    ) -> None:
        self._clock, self._trace, self._kafka, self._judge, self._session_ms = clock, trace, kafka, judge, session_ms
        self._longest_lock_ms, self._shortest_lock_ms = longest_lock_ms, shortest_lock_ms
        self._numbers = itertools.count(1)
        #: The unacknowledged records of a member, as last received.
        self._seen: dict[tuple[str, Place], dict[int, _Seen]] = {}
        self._sent: dict[int, dict[int, _Seen]] = {}
        self._let_go_ms: dict[tuple[str, Place], int] = {}

    def delivered(self, delivery: Delivery) -> None:
        """Report records, except those released while the response was on its way, which the member does not hold."""
        key, member_id = self._key(delivery.place), delivery.member_id
        left_ms = delivery.lock_end_ms - self._clock.now_ms
        self._trace.add(
            member_id, lambda: f"gets {_text(delivery.acquired)} of {key}, {left_ms} ms of the lock left", str(key)
        )
        there = list(_there(delivery))
        self._judge.delivered(member_id, key, there, delivery.lock_end_ms, f"wire-{next(self._numbers)}")
        seen = self._seen.setdefault((member_id, delivery.place), {})
        over_ms = delivery.made_ms + self._longest_lock_ms(delivery.place.group_id) + AHEAD_MS
        for first, last, count in delivery.acquired:  # holes in the log are acknowledged too, as gaps
            seen.update(dict.fromkeys(range(first, last + 1), _Seen(count, over_ms)))
        if delivery.made_ms <= self._let_go_ms.get((member_id, delivery.place), -1):
            self._drop(member_id, delivery.place)

    def acknowledge_sent(self, acknowledgement: Acknowledgement) -> None:
        """Report an acknowledgement; a renewal keeps its records held."""
        member_id, place, batches = acknowledgement.member_id, acknowledgement.place, acknowledgement.batches
        key = self._key(place)
        self._trace.add(member_id, lambda: f"acknowledges {_types(batches)} of {key}", str(key))
        known = self._seen.get((member_id, place), {})
        offsets = (offset for first, last, _ in batches for offset in range(first, last + 1))
        sent = self._sent[acknowledgement.number] = {offset: known[offset] for offset in offsets if offset in known}
        self._judge.gives_back(member_id, key, acknowledgement.unused)
        if acknowledgement.is_renewal:
            known.update({offset: seen._replace(over_ms=None) for offset, seen in sent.items()})
            return
        self._judge.acknowledges(member_id, key, batches)
        for offset in sent:
            del known[offset]

    def acknowledge_answered(self, acknowledgement: Acknowledgement, error_code: int | None, lock_ms: int) -> None:
        """Report a response; a lost one may mean either result."""
        key, sent = self._key(acknowledgement.place), self._sent.pop(acknowledgement.number, {})
        code = "lost" if error_code is None else error_code
        self._trace.add(
            acknowledgement.member_id,
            lambda: f"is answered {code} to {_types(acknowledgement.batches)} of {key}",
            str(key),
        )
        if error_code != 0:
            return
        counts = {offset: seen.delivery_count for offset, seen in sent.items()}
        self._judge.acknowledged_ok(acknowledgement.member_id, key, acknowledgement.batches, counts)
        self._is_in_time(acknowledgement, key, sent.values())
        if acknowledgement.is_renewal:
            self._renewed(acknowledgement, sent)
            renewed = [
                AcquiredRange(offset, offset, counts[offset])
                for offset in _renewed(acknowledgement.batches)
                if offset in counts
            ]
            # The job may use another duration than the gateway, which an administrator has just altered.
            least_ms = min(lock_ms, self._shortest_lock_ms(key.group_id))
            self._judge.renewed(acknowledgement.member_id, key, renewed, acknowledgement.sent_ms + least_ms)

    def _is_in_time(self, acknowledgement: Acknowledgement, key: Key, sent: Iterable[_Seen]) -> None:
        """Check that all was sent while its locks could have lasted, because it was appended after that."""
        over_ms = min((seen.over_ms for seen in sent if seen.over_ms is not None), default=None)
        if over_ms is not None:
            grant = self._judge.grant(key.group_id, acknowledgement.member_id, over_ms)
            self._judge.is_in_time(key, _types(acknowledgement.batches), grant, acknowledgement.sent_ms)

    def _renewed(self, acknowledgement: Acknowledgement, sent: Iterable[int]) -> None:
        """Apply a renewal; records acquired again meanwhile have their own lock."""
        seen = self._seen[acknowledgement.member_id, acknowledgement.place]
        over_ms = self._clock.now_ms + self._longest_lock_ms(acknowledgement.place.group_id)
        for offset in sent:
            if offset in seen and seen[offset].over_ms is None:
                seen[offset] = seen[offset]._replace(over_ms=over_ms)

    def let_go(self, member_id: str, places: Sequence[Place], why: str) -> None:
        """Release the records that the member holds there."""
        for place in places:
            key = self._key(place)
            self._trace.add(member_id, lambda key=key: f"may hold nothing of {key}: {why}", str(key))  # type: ignore[misc]
            self._let_go_ms[member_id, place] = self._clock.now_ms
            self._drop(member_id, place)

    def heartbeat_sent(self, member_id: str, group_id: str, topics: Sequence[str]) -> None:
        """Report a heartbeat; the gateway may use any id that the topics have had recently."""
        known = [self._kafka.topics[name].topic_id for name in topics if name in self._kafka.topics]
        self._judge.wants(group_id, known)

    def heartbeat_answered(self, member_id: str, group_id: str, sent_ms: int) -> None:
        """Report a heartbeat, which was appended after it was sent."""
        self._judge.heartbeat_appended(group_id, member_id, sent_ms, self._session_ms(group_id))

    def left(self, member_id: str, group_id: str) -> None:
        """Report that the member leaves, or is unknown."""
        self._judge.session_over(group_id, member_id)

    def _drop(self, member_id: str, place: Place) -> None:
        offsets = self._seen.get((member_id, place), {})
        batches = [AcknowledgementBatch(offset, offset, (int(AcknowledgeType.RELEASE),)) for offset in offsets]
        self._judge.acknowledges(member_id, self._key(place), batches)

    def _key(self, place: Place) -> Key:
        topic = self._kafka.topic_by_id(place.topic_id) or self._kafka.deleted.get(place.topic_id)
        return Key(place.group_id, topic.name if topic is not None else "?", place.topic_id, place.partition)


def _there(delivery: Delivery) -> Iterator[AcquiredRange]:
    """Yield the acquired ranges without offsets that have no record, which a client never receives."""
    there = set(delivery.records)
    for first, last, count in delivery.acquired:
        start: int | None = None
        for offset in range(first, last + 2):
            if offset <= last and offset in there:
                start = offset if start is None else start
            elif start is not None:
                yield AcquiredRange(start, offset - 1, count)
                start = None


def _renewed(batches: Iterable[AcknowledgementBatch]) -> Iterator[int]:
    for first, last, types in batches:
        for at, offset in enumerate(range(first, last + 1)):
            if types[at if len(types) > 1 else 0] == AcknowledgeType.RENEW:
                yield offset


def _text(ranges: Iterable[AcquiredRange]) -> str:
    return ", ".join(f"{first}..{last} ({count})" for first, last, count in ranges)


def _types(batches: Iterable[AcknowledgementBatch]) -> str:
    return ", ".join(
        f"{first}..{last} {'/'.join(AcknowledgeType(kind).name for kind in dict.fromkeys(types))}"
        for first, last, types in batches
    )
