"""The safe clock: until when a request topic has been read.

A deadline that a request may still beat (a lock's, a session's) must not be judged by the wall clock: an acknowledgement
that was in time may be unread, in a backlog or because it came a moment ago. It is judged by the latest time before which
every appended request has been read by a committed batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from kafka import TopicPartition

from sharegroup.spark.log_poll import LogPoll

_SAMPLES = 64


class SafeClock:
    """The latest time before which every appended request has been read by a committed batch."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[int, int]]] = deque(maxlen=_SAMPLES)
        self._safe_ms = 0

    def observe(self, now_ms: int, ends: Mapping[int, int]) -> None:
        """`ends` are the request topic's end offsets, looked up after `now_ms` was taken."""
        self._samples.append((now_ms, dict(ends)))

    def safe_ms(self, positions: Mapping[int, int]) -> int:
        """The safe time, given the next unread offset of each request partition."""
        for now_ms, ends in self._samples:
            if all(positions.get(partition, 0) >= end for partition, end in ends.items()):
                self._safe_ms = max(self._safe_ms, now_ms)
        return self._safe_ms


class RequestClock:
    """Watches a request topic. `idle_poll_ms` is how often its log start is looked up, which retention moves."""

    def __init__(self, poll: LogPoll, topic: str, idle_poll_ms: int) -> None:
        self._poll = poll
        self._topic = topic
        self._idle_poll_ms = idle_poll_ms
        self._partitions: list[TopicPartition] = []
        self._starts: dict[int, int] = {}
        self._starts_ms = 0
        self._clock = SafeClock()

    def observe(self, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        """Whether unread requests are there, and the safe time (ms), given the next unread offset of each partition.

        `now_ms` must have been taken before. Raises KafkaError.
        """
        if not self._partitions:
            self._partitions = self._poll.partitions_of(self._topic)
        if now_ms - self._starts_ms >= self._idle_poll_ms:
            self._starts = {tp.partition: offset for tp, offset in self._poll.starts(self._partitions).items()}
            self._starts_ms = now_ms
        ends = {tp.partition: offset for tp, offset in self._poll.ends(self._partitions).items()}
        read = {p: max(positions.get(p, 0), self._starts.get(p, 0)) for p in ends}
        self._clock.observe(now_ms, ends)
        return any(end > read[p] for p, end in ends.items()), self._clock.safe_ms(read)
