"""Watches a request topic: up to which time it has been read, and whether there are unread requests.

A deadline that a request may still meet (of a lock or a session) must not be compared with the present time: an
acknowledgement that was appended in time may be unread, in a backlog or because it is new. It is compared with the
*safe time*: the latest time before which every appended request has been read by a committed batch. Times in this
module are of the steady clock (`kafka_clients.steady_time`), which never goes back; `Handover.brokers_ms` converts them
to the brokers' time.

While no request is unread, the source waits here for the next request with a long poll at the broker. An empty
trigger costs the JVM milliseconds, and five of them a second took most of an idle job's 7 % of a core.

Requests that may linger (`unread_requests`) wait here for requests that may not.

A request topic can get more partitions at any time, so each observation begins with the number of partitions. Offsets
without a row (transaction markers, rows of aborted transactions) never move a position, because positions come from
rows. If a reader of committed rows passes such offsets without finding a row, nothing is unread there.
"""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from sharegroup.job.clock.unread_requests import NO_DEMANDS, LingerRules, UnreadRequests
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.log_fields import LogFields
from sharegroup.types import WaitsFor

logger = logging.getLogger(__name__)

_SAMPLES = 64
#: A position that stays below the log end for this long, in ms, is compared with what a reader finds after it.
_STUCK_MS = 1_000
#: A partition in which nothing can be read for this long, in ms, is reported.
_HELD_UP_MS = 10_000
#: How often lingering requests are checked, in seconds.
_LINGER_POLL_S = 0.02
#: The maximum number of unread requests of one poll, and its maximum time for requests that are there, in ms.
_POLL_RECORDS, _POLL_MS = 500, 200


class SafeClock:
    """The latest time before which every appended request has been read by a committed batch."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[int, int]]] = []
        self._safe_ms = 0

    def observe(self, now_ms: int, ends: Mapping[int, int]) -> None:
        """Add a sample: the request topic's end offsets, fetched after the time `now_ms`.

        If there are too many samples, every other one is dropped: in a long backlog the old ones are reached next.
        """
        if len(self._samples) >= _SAMPLES:
            self._samples = self._samples[::2]
        self._samples.append((now_ms, dict(ends)))

    def safe_ms(self, positions: Mapping[int, int]) -> int:
        """Return the safe time, given the next unread offset of each request partition."""
        unread = []
        for now_ms, ends in self._samples:
            if all(positions.get(partition, 0) >= end for partition, end in ends.items()):
                self._safe_ms = max(self._safe_ms, now_ms)
            else:
                unread.append((now_ms, ends))
        self._samples = unread
        return self._safe_ms


@dataclass
class _Stuck:
    """A position that has not moved since `since_ms` although the log ends after it."""

    offset: int
    since_ms: int
    is_reported: bool = False


class RequestClock:
    """Watches a request topic. `idle_poll_ms` is how often its log start, which retention moves, is fetched. `rules`
    decide which requests may linger; None means none. Sources report to `outage` whether the topic can be polled."""

    def __init__(self, poll: LogPoll, topic: str, idle_poll_ms: int, rules: LingerRules | None = None) -> None:
        self._poll = poll
        self._topic = topic
        self._idle_poll_ms = idle_poll_ms
        self._rules = rules
        self.outage = OutageLog(logger, "the request topic cannot be polled", "the request topic is polled again")
        self._partitions: list[TopicPartition] = []
        self._starts: dict[int, int] = {}
        self._starts_ms = 0
        self._clock = SafeClock()
        self._waiter: KafkaConsumer | None = None
        self._waits_from: dict[int, int] = {}
        #: The next offset that the waiter reads. Its own `position` may block while a leader does not respond.
        self._next_offsets: dict[TopicPartition, int] = {}
        self._unread = UnreadRequests(rules)
        #: The partitions in which the waiter has found a row after the position.
        self._found: set[int] = set()
        self._stuck: dict[int, _Stuck] = {}
        #: By partition, the offset below which all rows have been read. It may be above the position.
        self._without_rows: dict[int, int] = {}

    def observe(self, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        """Return whether there are unread requests, and the safe time (ms), for the next unread offsets.

        `now_ms` must have been taken before the call. The safe time does not advance while a partition's leader does
        not respond, while the brokers do not have the topic, or while an open transaction blocks rows.
        Raises KafkaError until a broker has returned metadata once.
        """
        is_counted = self._count_partitions()
        if now_ms - self._starts_ms >= self._idle_poll_ms:
            self._starts |= {tp.partition: offset for tp, offset in self._poll.starts(self._partitions).items()}
            self._starts_ms = now_ms
        ends = {tp.partition: offset for tp, offset in self._poll.ends(self._partitions).items()}
        if is_counted and len(ends) == len(self._partitions):
            self._clock.observe(now_ms, ends)  # otherwise there may be requests that no sample covers
        empty = self._partitions_without_rows(now_ms, positions, ends)
        read = self._read(positions)
        return any(end > read[p] and p not in empty for p, end in ends.items()), self._clock.safe_ms(read)

    def is_due(self, positions: Mapping[int, int], waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Return whether unread requests may not linger (any longer), given what demands wait for, by shard key.

        Call `observe` first. Raises KafkaError.
        """
        if self._unread_behind(positions).due_ms is None:
            self._fetch_unread(_POLL_MS, waiting)
        return self._unread.is_due(_monotonic_ms())

    def wait(self, positions: Mapping[int, int], timeout_ms: int, waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Wait until `is_due`, at most `timeout_ms`; return whether requests are due. Raises KafkaError."""
        unread, end_ms = self._unread_behind(positions), _monotonic_ms() + timeout_ms
        while not unread.is_due(now_ms := _monotonic_ms()):
            if now_ms >= end_ms:
                return False
            if unread.due_ms is None:
                self._fetch_unread(end_ms - now_ms, waiting)
            else:
                time.sleep(_LINGER_POLL_S)  # not a long poll: it would end with each request that may linger
                self._fetch_unread(0, waiting)
        return True

    def pop_unread_topics(self) -> set[str]:
        """Return the ids of the topics of unread requests that were seen, each id once."""
        return self._unread.pop_topics()

    def close(self) -> None:
        """Close the waiter's connections."""
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None

    def _count_partitions(self) -> bool:
        """Update the number of partitions; return whether it is current."""
        try:
            found = self._poll.partitions_of(self._topic)
        except KafkaError:
            if not self._partitions:
                raise
            return False
        if len(found) > len(self._partitions):
            if self._partitions:
                logger.warning(
                    "topic %(topic)s has %(count)d partitions, %(previous_count)d before",
                    LogFields(topic=self._topic, count=len(found), previous_count=len(self._partitions)),
                )
            self._partitions, self._starts_ms = found, 0
            if self._waiter is not None:
                self._waiter.assign(found)
                self._waits_from, self._next_offsets = {}, {}
        return bool(found)

    def _partitions_without_rows(
        self, now_ms: int, positions: Mapping[int, int], ends: Mapping[int, int]
    ) -> frozenset[int]:
        """Return the partitions that have offsets after the position, but no row that can be read."""
        read = self._read(positions)
        behind = {p: read[p] for p, end in ends.items() if end > read[p]}
        self._stuck = {
            p: stuck if (stuck := self._stuck.get(p)) is not None and stuck.offset == offset else _Stuck(offset, now_ms)
            for p, offset in behind.items()
        }
        waiting = {p: stuck for p, stuck in self._stuck.items() if abs(now_ms - stuck.since_ms) >= _STUCK_MS}
        if not waiting:
            return frozenset()
        empty = self._empty_up_to(positions, waiting)
        for partition, offset in empty.items():
            if offset > read[partition]:
                self._without_rows[partition] = offset
            elif abs(now_ms - (stuck := waiting[partition]).since_ms) >= _HELD_UP_MS and not stuck.is_reported:
                stuck.is_reported = True
                logger.warning(
                    "%(topic)s-%(partition)d: no row can be read from offset %(offset)d on, but the log ends at "
                    "%(end_offset)d; a transaction is open, or the leader does not respond. Until the rows can be "
                    "read, their requests wait, and no lock or session expires",
                    LogFields(topic=self._topic, partition=partition, offset=offset, end_offset=ends[partition]),
                )
        return frozenset(empty)

    def _empty_up_to(self, positions: Mapping[int, int], partitions: Collection[int]) -> dict[int, int]:
        """Return those of the partitions in which the waiter finds no row, with the next offset that it reads."""
        self._unread_behind(positions)
        if self._found.issuperset(partitions):
            return {}
        self._fetch_unread(_POLL_MS, NO_DEMANDS)
        assert self._waiter is not None
        return {
            tp.partition: int(self._waiter.position(tp, timeout_ms=0) or self._next_offsets[tp])
            for tp in self._partitions
            if tp.partition in partitions and tp.partition not in self._found
        }

    def _unread_behind(self, positions: Mapping[int, int]) -> UnreadRequests:
        """Return what was seen after the positions; nothing yet if the positions have changed."""
        if self._waiter is None:
            self._waiter = self._poll.waiter()
            self._waiter.assign(self._partitions)
        read = self._read(positions)
        if read != self._waits_from:
            for partition in self._partitions:
                if self._next_offsets.get(partition) != read[partition.partition]:
                    self._waiter.seek(partition, read[partition.partition])
                    self._next_offsets[partition] = read[partition.partition]
            self._waits_from, self._unread = read, UnreadRequests(self._rules)
            self._found.clear()
        return self._unread

    def _fetch_unread(self, timeout_ms: int, waiting: Mapping[str, WaitsFor]) -> None:
        """Poll for requests that were not seen yet, up to the timeout."""
        assert self._waiter is not None
        found = self._waiter.poll(timeout_ms=timeout_ms, max_records=_POLL_RECORDS)
        for partition, records in found.items():
            self._next_offsets[partition] = records[-1].offset + 1
            self._found.add(partition.partition)
        values = (record.value or b"" for records in found.values() for record in records)
        self._unread.add(values, waiting, _monotonic_ms())

    def _read(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return each partition's next unread offset; deleted offsets and those without rows count as read."""
        known = (positions, self._starts, self._without_rows)
        return {tp.partition: max(offsets.get(tp.partition, 0) for offsets in known) for tp in self._partitions}


class Waiting:
    """How long one `read` of a source may wait: until there is something new, a deadline is due, or the limit ends."""

    def __init__(self, limit_ms: int) -> None:
        self._end = time.monotonic() + limit_ms / 1000

    def next_ms(self, now_ms: int, deadline_ms: int | None, slice_ms: int) -> int:
        """Return how long to wait now, in ms, at most `slice_ms`; 0 after the limit."""
        left = int((self._end - time.monotonic()) * 1000)
        if deadline_ms is not None:
            left = min(left, max(1, deadline_ms - now_ms + 1))
        return max(0, min(left, slice_ms))


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)
