"""What a source knows of a request topic: until when it has been read, and whether there is more.

A deadline that a request may still beat (a lock's, a session's) must not be judged by the present time: an
acknowledgement that was in time may be unread, in a backlog or because it came a moment ago. It is judged by the *safe
time*: the latest time before which every appended request has been read by a committed batch. Times here are of the
steady clock (`topics.steady_time`), which never goes back; `HandOver.brokers_ms` gives the brokers' time for them.

While nothing is to be done, the source waits here for the next request (a long poll at the broker): a trigger that
finds nothing costs the JVM milliseconds, and five of them a second were most of an idle job's 7 % of a core.

Requests that may linger (`unread_requests`) wait here for those that may not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka import KafkaConsumer, TopicPartition

from sharegroup.types import WaitsFor
from sharegroup.watch.log_poll import LogPoll
from sharegroup.watch.unread_requests import NOBODY, LingerRules, UnreadRequests

_SAMPLES = 64
#: How often lingering requests are looked at, in seconds.
_LINGER_POLL_S = 0.02
#: How many unread requests are looked at in one go, and how long it may take to get those that are there, in ms.
_LOOK_RECORDS, _LOOK_MS = 500, 200


class SafeClock:
    """The latest time before which every appended request has been read by a committed batch."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[int, int]]] = []
        self._safe_ms = 0

    def observe(self, now_ms: int, ends: Mapping[int, int]) -> None:
        """`ends` are the request topic's end offsets, looked up after `now_ms` was taken.

        Of many samples every other one goes: in a long backlog the old ones are those that will be reached next.
        """
        if len(self._samples) >= _SAMPLES:
            self._samples = self._samples[::2]
        self._samples.append((now_ms, dict(ends)))

    def safe_ms(self, positions: Mapping[int, int]) -> int:
        """The safe time, given the next unread offset of each request partition."""
        unread = []
        for now_ms, ends in self._samples:
            if all(positions.get(partition, 0) >= end for partition, end in ends.items()):
                self._safe_ms = max(self._safe_ms, now_ms)
            else:
                unread.append((now_ms, ends))
        self._samples = unread
        return self._safe_ms


class RequestClock:
    """Watches a request topic. `idle_poll_ms` is how often its log start is looked up, which retention moves;
    `rules` say which requests may linger: none without."""

    def __init__(self, poll: LogPoll, topic: str, idle_poll_ms: int, rules: LingerRules | None = None) -> None:
        self._poll = poll
        self._topic = topic
        self._idle_poll_ms = idle_poll_ms
        self._rules = rules
        self._partitions: list[TopicPartition] = []
        self._starts: dict[int, int] = {}
        self._starts_ms = 0
        self._clock = SafeClock()
        self._waiter: KafkaConsumer | None = None
        self._waits_from: dict[int, int] = {}
        #: The next offset that the waiter reads. Its own `position` may block while a leader does not answer.
        self._looked: dict[TopicPartition, int] = {}
        self._unread = UnreadRequests(rules)

    def observe(self, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        """Whether unread requests are there, and the safe time (ms), given the next unread offset of each partition.

        `now_ms` must have been taken before. The safe time stays while the leader of a partition does not answer, and
        while the brokers do not know the topic.
        Raises KafkaError while no broker gives metadata.
        """
        if not self._partitions:
            self._partitions = self._poll.partitions_of(self._topic)
        if now_ms - self._starts_ms >= self._idle_poll_ms:
            self._starts |= {tp.partition: offset for tp, offset in self._poll.starts(self._partitions).items()}
            self._starts_ms = now_ms
        ends = {tp.partition: offset for tp, offset in self._poll.ends(self._partitions).items()}
        read = self._read(positions)
        if self._partitions and len(ends) == len(self._partitions):
            self._clock.observe(now_ms, ends)  # else there may be requests that nobody knows of
        return any(end > read[p] for p, end in ends.items()), self._clock.safe_ms(read)

    def are_due(self, positions: Mapping[int, int], waiting: Mapping[str, WaitsFor] = NOBODY) -> bool:
        """Whether unread requests that are there may not linger (any more), given what demands wait for,
        by shard key. `observe` comes first. Raises KafkaError.
        """
        if self._unread_behind(positions).due_ms is None:
            self._look(_LOOK_MS, waiting)
        return self._unread.are_due(_monotonic_ms())

    def wait(self, positions: Mapping[int, int], timeout_ms: int, waiting: Mapping[str, WaitsFor] = NOBODY) -> bool:
        """Wait until `are_due`, at most `timeout_ms`; whether they are. Raises KafkaError."""
        unread, end_ms = self._unread_behind(positions), _monotonic_ms() + timeout_ms
        while not unread.are_due(now_ms := _monotonic_ms()):
            if now_ms >= end_ms:
                return False
            if unread.due_ms is None:
                self._look(end_ms - now_ms, waiting)
            else:
                time.sleep(_LINGER_POLL_S)  # not a long poll: it would end with each request that may linger
                self._look(0, waiting)
        return True

    def topics_of_unread(self) -> set[str]:
        """The ids of the topics that unread requests are about, as far as they were seen, each told once."""
        return self._unread.take_topics()

    def close(self) -> None:
        """Close the connections of its own."""
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None

    def _unread_behind(self, positions: Mapping[int, int]) -> UnreadRequests:
        """What was seen behind the positions; nothing yet when they are others than before."""
        if self._waiter is None:
            self._waiter = self._poll.waiter()
            self._waiter.assign(self._partitions)
        read = self._read(positions)
        if read != self._waits_from:
            for partition in self._partitions:
                if self._looked.get(partition) != read[partition.partition]:
                    self._waiter.seek(partition, read[partition.partition])
                    self._looked[partition] = read[partition.partition]
            self._waits_from, self._unread = read, UnreadRequests(self._rules)
        return self._unread

    def _look(self, timeout_ms: int, waiting: Mapping[str, WaitsFor]) -> None:
        """Add requests that were not seen yet, as soon as there are some."""
        assert self._waiter is not None
        found = self._waiter.poll(timeout_ms=timeout_ms, max_records=_LOOK_RECORDS)
        for partition, records in found.items():
            self._looked[partition] = records[-1].offset + 1
        values = (record.value or b"" for records in found.values() for record in records)
        self._unread.add(values, waiting, _monotonic_ms())

    def _read(self, positions: Mapping[int, int]) -> dict[int, int]:
        """The next unread offset of each partition; what retention has taken counts as read."""
        return {
            tp.partition: max(positions.get(tp.partition, 0), self._starts.get(tp.partition, 0))
            for tp in self._partitions
        }


class Waiting:
    """How long one `read` of a source may wait: until something is new, a deadline is due, or `limit_ms` is over."""

    def __init__(self, limit_ms: int) -> None:
        self._end = time.monotonic() + limit_ms / 1000

    def next_ms(self, now_ms: int, deadline_ms: int | None, slice_ms: int) -> int:
        """How long to wait now, in ms, at most `slice_ms`; 0 when the limit is over."""
        left = int((self._end - time.monotonic()) * 1000)
        if deadline_ms is not None:
            left = min(left, max(1, deadline_ms - now_ms + 1))
        return max(0, min(left, slice_ms))


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)
