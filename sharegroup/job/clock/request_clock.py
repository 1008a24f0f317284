"""Watches a request topic: up to which time it has been read, and whether there are unread requests.

The deadline of a lock or a session must not be compared with the present time. A request that was appended in time may
still be unread, for example in a backlog. The deadline is therefore compared with the *safe time*: the latest time
before which every appended request has been read by a committed batch. Times in this module are of the steady clock
(`kafka_clients.steady_time`), which never goes back. `Handover.brokers_ms` converts them to the brokers' time.

While no request is unread, the source waits in `RequestClock.wait` for the next one, with a long poll at the broker.
Each return to Spark would cost an empty trigger, which takes the JVM several milliseconds. Five triggers per second
took most of the 7 % of a core that an idle job used. A request that may *linger* (see `unread_requests`) does not end
this wait until its time is over, or until a request arrives that may not linger.

A request topic can get more partitions at any time, so each observation first fetches the number of partitions. A
*position* is the next unread offset of a partition. Positions come from rows, so offsets without a row (transaction
markers, rows of aborted transactions) never move a position, and the log may end after it although nothing is unread.
A consumer that reads only committed rows then checks whether there is a row after the position.
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
#: If a position stays below the log end for this long, in ms, a consumer checks whether there is a row after it.
_STUCK_MS = 1_000
#: If no row of a partition can be read for this long, in ms, a warning is logged.
_HELD_UP_MS = 10_000
#: How often lingering requests are checked, in seconds.
_LINGER_POLL_S = 0.02
#: The maximum number of requests that one poll returns, and its timeout in ms if requests are known to be unread.
_POLL_RECORDS, _POLL_MS = 500, 200


class SafeClock:
    """Computes the safe time: committed batches have read every request that was appended before this time."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[int, int]]] = []
        self._safe_ms = 0

    def observe(self, now_ms: int, ends: Mapping[int, int]) -> None:
        """Add a sample: the request topic's end offsets, fetched after the time `now_ms`.

        If there are too many samples, every second one is dropped. The oldest ones are not dropped first, because the
        query's positions reach these next.
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
    """Watches a request topic for unread requests, and computes its safe time.

    `idle_poll_ms` is the interval at which the log start offsets, which retention moves, are fetched. `rules` decide
    which requests may linger; None means that no request may linger. The caller must report failed and successful polls
    of the topic to `outage`, which logs them.
    """

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
        #: The next offset that `_waiter` reads. It is stored because `_waiter.position` may block while a leader does
        #: not respond.
        self._next_offsets: dict[TopicPartition, int] = {}
        self._unread = UnreadRequests(rules)
        #: The partitions in which `_waiter` has found a row after the position.
        self._found: set[int] = set()
        self._stuck: dict[int, _Stuck] = {}
        #: By partition, an offset before which there is no unread row. It may be higher than the position.
        self._without_rows: dict[int, int] = {}

    def observe(self, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        """Return whether there are unread requests, and the safe time in ms.

        `positions` has the next unread offset of each partition. `now_ms` must have been read before the call. The safe
        time does not advance while a leader does not respond, the topic does not exist, or an open transaction blocks
        rows. Raises KafkaError until a broker has returned metadata once.
        """
        is_counted = self._count_partitions()
        if now_ms - self._starts_ms >= self._idle_poll_ms:
            self._starts |= {tp.partition: offset for tp, offset in self._poll.starts(self._partitions).items()}
            self._starts_ms = now_ms
        ends = {tp.partition: offset for tp, offset in self._poll.ends(self._partitions).items()}
        is_complete = is_counted and len(ends) == len(self._partitions)
        if is_complete and (log_ends := self._log_ends()) is not None:
            # Otherwise there may be requests that no sample covers.
            self._clock.observe(now_ms, {p: max(end, log_ends.get(p, 0)) for p, end in ends.items()})
        empty = self._partitions_without_rows(now_ms, positions, ends)
        read = self._read(positions)
        return any(end > read[p] and p not in empty for p, end in ends.items()), self._clock.safe_ms(read)

    def is_due(self, positions: Mapping[int, int], waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Return whether an unread request must be processed now, because it may not linger any longer.

        If no unread request was polled yet, poll the topic first, for up to `_POLL_MS`. `waiting` has, by shard key,
        what pending fetches wait for. Call `observe` before this method. Raises KafkaError if the topic cannot be
        polled.
        """
        if self._unread_behind(positions).due_ms is None:
            self._fetch_unread(_POLL_MS, waiting)
        return self._unread.is_due(_monotonic_ms())

    def wait(self, positions: Mapping[int, int], timeout_ms: int, waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Wait until a request must be processed (see `is_due`), or until `timeout_ms` have passed.

        Return whether a request must be processed. `positions` and `waiting` are as in `is_due`. Raises KafkaError if
        the topic cannot be polled.
        """
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
        """Return the topic ids in the unread requests that were polled since the last call."""
        return self._unread.pop_topics()

    def close(self) -> None:
        """Close the connections of the consumer that waits for requests."""
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None

    def _log_ends(self) -> dict[int, int] | None:
        """Return the ends of the leaders' logs; None if a leader did not respond.

        `LogPoll.ends` returns high watermarks. A row that a follower has not copied yet has its append time already,
        but is not below the high watermark. A leader returns the end of its log as the end of its own epoch. The result
        lacks partitions of brokers that return no epochs (before Kafka 2.1).
        """
        epochs = self._poll.leader_epochs(self._partitions)
        ends = self._poll.epoch_ends(epochs)
        return {tp.partition: end for tp, end in ends.items()} if len(ends) == len(epochs) else None

    def _count_partitions(self) -> bool:
        """Fetch the topic's partitions, store new ones, and return whether the topic exists.

        If no broker responds, return False. Raises KafkaError instead if no partitions are known yet.
        """
        try:
            found = self._poll.partitions_of(self._topic)
        except KafkaError:
            if not self._partitions:
                raise
            return False
        if len(found) > len(self._partitions):
            if self._partitions:
                logger.warning(
                    "request topic %(topic)s grew from %(previous_count)d to %(count)d partitions; running"
                    " gateways use only the previous partitions until they are restarted",
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
        """Return the partitions without a readable row for `_STUCK_MS`, although their log ends after the position.

        If `_waiter` could skip offsets without rows, store in `_without_rows` how far it has come. If it could not, log
        a warning once the partition has been in this state for `_HELD_UP_MS`.
        """
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
        """Return {partition: next offset that `_waiter` reads} for the `partitions` in which it finds no row."""
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
        """Return the unread requests that `_waiter` has polled so far, from the positions on.

        If the positions have changed since the last call, the result is empty, because the requests that were polled
        before are discarded. `_waiter` then continues at the new positions.
        """
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
        """Wait up to `timeout_ms` for further unread requests, and add them to `_unread`."""
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
    """A time limit for a call that waits several times. It ends `limit_ms` after the construction of this object."""

    def __init__(self, limit_ms: int) -> None:
        self._end = time.monotonic() + limit_ms / 1000

    def next_ms(self, now_ms: int, deadline_ms: int | None, slice_ms: int) -> int:
        """Return how long to wait now, in ms: until the time limit or an earlier deadline, but at most `slice_ms`.

        `now_ms` and `deadline_ms` are times of the same clock, which need not be the clock of the time limit.
        """
        left = int((self._end - time.monotonic()) * 1000)
        if deadline_ms is not None:
            left = min(left, max(1, deadline_ms - now_ms + 1))
        return max(0, min(left, slice_ms))


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)
