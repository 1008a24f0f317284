"""A Kafka cluster's logs in memory: topics with ids, partitions with leaders, batches with their append times.

This is the state of the brokers, complete and current. `log_clients` creates what clients see of it: late, twice or
never.
"""

from __future__ import annotations

import base64
import bisect
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.errors import (
    LeaderNotAvailableError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from sharegroup.protocol.topic_ids import derive_topic_id, topic_id_text
from tests.simulation.brokers.broker_silence import BrokerSilence
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

CLUSTER_ID = "simulated"

Row = tuple[bytes | None, bytes]


class LogRecord(NamedTuple):
    """A record of a batch."""

    offset: int
    key: bytes | None
    value: bytes


class LogBatch(NamedTuple):
    """A record batch; its offsets without a record are holes, as after compaction. `producer` is the producer of its
    transaction ("": none), `control` the type of its marker ("commit", "abort"; "": records)."""

    base_offset: int
    last_offset: int
    append_ms: int
    records: tuple[LogRecord, ...]
    producer: str = ""
    control: str = ""


@dataclass
class PartitionLog:
    """One partition: `leader` is a broker's id, -1 while there is none. `log_start_offset` is the first readable
    offset."""

    leader: int
    log_start_offset: int = 0
    log_end_offset: int = 0
    batches: list[LogBatch] = field(default_factory=list)
    #: Open transactions: producer to the first offset.
    open: dict[str, int] = field(default_factory=dict)
    #: (producer, first offset, marker's offset) of aborted transactions.
    aborted: list[tuple[str, int, int]] = field(default_factory=list)
    leader_epoch: int = 0
    #: (leader epoch, the log's end at its begin), after the first.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    #: The highest log end before an unclean election.
    lost_end: int = 0
    #: The number of partitions when the topic was created.
    first_count: int = 0
    #: (time in ms, log start, last stable offset, log end) after each change.
    history: list[tuple[int, int, int, int]] = field(default_factory=list)
    #: (append time in ms, base offset) of every batch ever appended.
    appended: list[tuple[int, int]] = field(default_factory=list)

    @property
    def last_stable_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or the log end."""
        return min([*self.open.values(), self.log_end_offset])

    def read(self, offset: int, end: int | None = None) -> Iterator[LogBatch]:
        """Yield the batches that reach beyond `offset`, up to `end`; they may begin below it. None below the start."""
        stop = self.log_end_offset if end is None else min(end, self.log_end_offset)
        at = bisect.bisect_left(self.batches, max(offset, self.log_start_offset), key=lambda batch: batch.last_offset)
        for batch in self.batches[at:]:
            if batch.base_offset >= stop:
                return
            yield batch

    def records(self, offset: int, end: int | None = None) -> Iterator[tuple[int, LogRecord]]:
        """Yield (append time, record) of all records from `offset` up to `end` that are visible to everybody."""
        first = max(offset, self.log_start_offset)
        for batch in self.read(first, end):
            for record in batch.records:
                if first <= record.offset and (end is None or record.offset < end):
                    yield batch.append_ms, record

    def committed(self, offset: int, end: int | None = None) -> Iterator[tuple[int, LogRecord]]:
        """Yield the same for committed transactions and records without one, up to the last stable offset."""
        stable = self.last_stable_offset if end is None else min(end, self.last_stable_offset)
        for append_ms, record in self.records(offset, stable):
            if not self.is_aborted(record.offset):
                yield append_ms, record

    def is_aborted(self, offset: int) -> bool:
        """Return whether the record at the offset belongs to an aborted transaction."""
        if not self.aborted:
            return False
        at = bisect.bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        producer = self.batches[at].producer if at < len(self.batches) else ""
        return any(producer == name and first <= offset < marker for name, first, marker in self.aborted)

    def epoch_end(self, epoch: int) -> int:
        """Return the end offset of the leaders up to an epoch."""
        return next((start for other, start in self.epochs if other > epoch), self.log_end_offset)

    def changed(self, now_ms: int) -> None:
        """Record the current start and end of the log."""
        self.history.append((now_ms, self.log_start_offset, self.last_stable_offset, self.log_end_offset))

    def starts_at(self, time_ms: int) -> int:
        """Return the log start at a time."""
        return self._at(time_ms)[1]

    def stable_at(self, time_ms: int) -> int:
        """Return the last stable offset at a time."""
        return self._at(time_ms)[2]

    def ends_at(self, time_ms: int) -> int:
        """Return the log end at a time."""
        return self._at(time_ms)[3]

    def offset_at(self, record_ms: int, time_ms: int) -> int:
        """Return the first offset, at a time, of a batch not older than `record_ms`; otherwise the log end then."""
        start, end = self.starts_at(time_ms), self.ends_at(time_ms)
        found = next((base for append_ms, base in self.appended if append_ms >= record_ms), end)
        return min(max(found, start), end)

    def _at(self, time_ms: int) -> tuple[int, int, int, int]:
        at = bisect.bisect_right(self.history, time_ms, key=lambda entry: entry[0]) - 1
        return self.history[at] if at >= 0 else (0, 0, 0, 0)

    def first_at(self, time_ms: int) -> int | None:
        """Return the first offset of a batch at or after a time; None if there is none."""
        for batch in self.batches:
            if batch.append_ms >= time_ms and batch.last_offset >= self.log_start_offset:
                return max(batch.base_offset, self.log_start_offset)
        return None


@dataclass
class Topic:
    """A topic; when created again under its name, it is a different one."""

    name: str
    topic_id: str
    partitions: list[PartitionLog]
    created_ms: int
    deleted_ms: int | None = None


class TopicView(NamedTuple):
    """A topic's metadata: its id, each partition's leader (-1: none), and the leader's epoch."""

    topic_id: str
    leaders: tuple[int, ...]
    leader_epochs: tuple[int, ...]


Metadata = Mapping[str, TopicView]
AppendListener = Callable[[str, int], None]


class Cut(NamedTuple):
    """The effect of an unclean election on a log: its records from `offset` to before `end` are lost."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    end: int
    time_ms: int


class SimulatedKafka:
    """The whole cluster: topics, leaders, logs. Raises kafka-python's errors. `listeners` are called with each append
    (topic, partition).

    Without `has_topic_ids` a topic's id is derived from its name, because brokers have no id; the next topic of that
    name has the same.
    """

    def __init__(self, clock: Scheduler, trace: Trace, brokers: int = 3, has_topic_ids: bool = True) -> None:
        self._clock = clock
        self._trace = trace
        #: How far the clock of each broker is behind the true time, in ms, and the topics whose appends show it.
        self.behind_ms: dict[int, int] = {}
        self.timed: Collection[str] = ()
        self.has_topic_ids = has_topic_ids
        self.brokers = tuple(range(1, brokers + 1))
        self.silence = BrokerSilence()
        self._last_silence_ms = 0
        self.topics: dict[str, Topic] = {}
        #: Deleted topics by id (the last one of each), whose content the judge queries.
        self.deleted: dict[str, Topic] = {}
        self.listeners: list[AppendListener] = []
        #: All unclean elections.
        self.cuts: list[Cut] = []
        #: Whether the topics of rows may get more partitions; each sender then has its own `partitioner`.
        self.may_grow = False
        self._senders = 0
        self._made = 0
        self._metadata: list[tuple[int, Metadata]] = [(0, {})]

    # -- topics ----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int) -> Topic:
        """Create a topic with a new id. Raises TopicAlreadyExistsError."""
        if name in self.topics:
            raise TopicAlreadyExistsError(name)
        topic_id = self._new_id(name)
        logs = [PartitionLog(self._broker(name, p), first_count=partitions) for p in range(partitions)]
        topic = self.topics[name] = Topic(name, topic_id, logs, self._clock.now_ms)
        self._changed(f"create topic {name} ({topic_id}) with {partitions} partitions")
        return topic

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopicOrPartitionError."""
        topic = self.topic(name)
        del self.topics[name]
        topic.deleted_ms = self._clock.now_ms
        self.deleted[topic.topic_id] = topic
        self._changed(f"delete topic {name} ({topic.topic_id})")

    def create_partitions(self, name: str, total: int) -> None:
        """Increase the number of a topic's partitions."""
        topic = self.topic(name)
        first_count = topic.partitions[0].first_count
        topic.partitions += [
            PartitionLog(self._broker(name, p), first_count=first_count) for p in range(len(topic.partitions), total)
        ]
        self._changed(f"topic {name} grows to {total} partitions")

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        """Move the leadership of a partition to another broker, or to none (-1)."""
        log = self._log(name, partition)
        log.leader, log.leader_epoch = leader, log.leader_epoch + 1
        log.epochs.append((log.leader_epoch, log.log_end_offset))
        self._changed(f"leader of {name}-{partition} is {leader if leader >= 0 else 'away'}")

    def elect_uncleanly(self, name: str, partition: int, leader: int, offset: int) -> None:
        """Elect a leader that has the partition's records only up to before `offset`, the begin of a batch."""
        log = self._log(name, partition)
        cut = Cut(name, self.topic(name).topic_id, partition, offset, log.log_end_offset, self._clock.now_ms)
        log.lost_end = max(log.lost_end, log.log_end_offset)
        log.batches = [batch for batch in log.batches if batch.base_offset < offset]
        log.appended = [(append_ms, base) for append_ms, base in log.appended if base < offset]
        log.open = {producer: first for producer, first in log.open.items() if first < offset}
        log.aborted = [found for found in log.aborted if found[2] < offset]
        log.epochs = [(epoch, min(start, offset)) for epoch, start in log.epochs]
        log.log_end_offset = offset
        log.changed(self._clock.now_ms)
        self.cuts.append(cut)
        self._trace.add("kafka", f"an unclean election cuts {name}-{partition} from {cut.end} to {offset}")
        self.move_leader(name, partition, leader)

    def metadata(self, lag_ms: int = 0) -> Metadata:
        """Return the brokers' metadata of the topics, now or some time ago."""
        time_ms = self._clock.now_ms - lag_ms
        at = bisect.bisect_right(self._metadata, time_ms, key=lambda entry: entry[0]) - 1
        return self._metadata[max(at, 0)][1]

    def topic(self, name: str) -> Topic:
        """Return the topic of that name. Raises UnknownTopicOrPartitionError."""
        if name not in self.topics:
            raise UnknownTopicOrPartitionError(name)
        return self.topics[name]

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """Return the topic with that id, if it exists."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def after(self, topic: Topic) -> Iterator[Topic]:
        """Yield the topics created under this topic's name after its deletion."""
        for found in (*self.deleted.values(), *self.topics.values()):
            if found.name == topic.name and topic.deleted_ms is not None and found.created_ms >= topic.deleted_ms:
                yield found

    # -- logs ------------------------------------------------------------------------------------------------------

    def log(self, name: str, partition: int) -> PartitionLog:
        """Return the partition of its leader.

        Raises UnknownTopicOrPartitionError, LeaderNotAvailableError, RequestTimedOutError (the leader is silent).
        """
        log = self._log(name, partition)
        if log.leader < 0:
            raise LeaderNotAvailableError(f"{name}-{partition}")
        if log.leader in self.silence:
            raise RequestTimedOutError(f"{name}-{partition}")
        return log

    @property
    def most_behind_ms(self) -> int:
        """Return the maximum difference of two brokers' clocks, which a judge has to allow."""
        return max(self.behind_ms.values(), default=0)

    def end_silence(self, node_id: int) -> None:
        """Let a broker respond again."""
        self.silence.end(node_id)
        self._last_silence_ms = self._clock.now_ms

    @property
    def silent_ago_ms(self) -> int:
        """Return the time since a broker was silent; 0 while one is."""
        return 0 if self.silence else self._clock.now_ms - self._last_silence_ms

    def has_silent_leader(self, name: str) -> bool:
        """Return whether a partition of the topic is led by a silent broker."""
        return bool(self.silence) and any(log.leader in self.silence for log in self.topic(name).partitions)

    def at_leader(self, name: str, partition: int, request: Callable[[], object]) -> None:
        """Send a request to the leader of a partition, which serves it when it can, if it is still the leader."""
        logs = self.topics[name].partitions if name in self.topics else []
        if partition >= len(logs):
            request()  # it raises the error
            return
        log, leader = logs[partition], logs[partition].leader
        self.silence.serve(leader, lambda: request() if log.leader == leader else None)

    def partition_of(self, name: str, key: bytes, lag_ms: int = 0) -> int:
        """Return the partition of a key, by metadata of some time ago; it depends only on their number."""
        return zlib.crc32(key) % self.count_of(name, lag_ms)

    def count_of(self, name: str, lag_ms: int = 0) -> int:
        """Return a topic's number of partitions, now or some time ago; now if the topic did not exist then."""
        view = self.metadata(lag_ms).get(name) if lag_ms else None
        return len(self.topic(name).partitions) if view is None else len(view.leaders)

    def partitioner(self, kept: Callable[[str, int], int] = lambda _, count: count) -> Callable[[str, bytes], int]:
        """Return the partitioner of a new sender; each has metadata of another age, and some another partitioner.

        It chooses among `kept` partitions of those that the sender knows.
        """
        if not self.may_grow:
            return self.partition_of
        self._senders += 1
        lag_ms, shift = self._senders * 1_777 % 5_000, int(self._senders % 4 == 0)

        def choose(name: str, key: bytes) -> int:
            count = kept(name, self.count_of(name, lag_ms))
            return (zlib.crc32(key) % count + shift) % count

        return choose

    def append(self, name: str, partition: int, rows: Sequence[Row], *, producer: str = "", holes: int = 0) -> LogBatch:
        """Append a batch with the current time, followed by offsets without records. Raises as `log`."""
        log = self.log(name, partition)
        base = log.log_end_offset
        records = tuple(LogRecord(base + at, key, value) for at, (key, value) in enumerate(rows))
        append_ms = self._clock.now_ms - (self.behind_ms.get(log.leader, 0) if name in self.timed else 0)
        batch = LogBatch(base, base + len(rows) + holes - 1, append_ms, records, producer)
        if producer:
            log.open.setdefault(producer, base)
        return self._append(name, partition, log, batch)

    def end_transaction(self, name: str, partition: int, producer: str, commit: bool) -> None:
        """Append the marker that ends a producer's open transaction. Raises as `log`."""
        log = self.log(name, partition)
        if producer not in log.open:
            return
        first, at = log.open.pop(producer), log.log_end_offset
        if not commit:
            log.aborted.append((producer, first, at))
        marker = "commit" if commit else "abort"
        self._append(name, partition, log, LogBatch(at, at, self._clock.now_ms, (), producer, marker))

    def delete_records(self, name: str, partition: int, before: int) -> None:
        """Move the log's start to `before` (at most its end), as retention or DeleteRecords does."""
        log = self.log(name, partition)
        log.log_start_offset = min(max(log.log_start_offset, before), log.log_end_offset)
        log.batches = [batch for batch in log.batches if batch.last_offset >= log.log_start_offset]
        log.changed(self._clock.now_ms)

    def _append(self, name: str, partition: int, log: PartitionLog, batch: LogBatch) -> LogBatch:
        log.batches.append(batch)
        log.log_end_offset = batch.last_offset + 1
        log.appended.append((batch.append_ms, batch.base_offset))
        log.changed(self._clock.now_ms)
        for listener in tuple(self.listeners):
            listener(name, partition)
        return batch

    def _log(self, name: str, partition: int) -> PartitionLog:
        topic = self.topic(name)
        if partition >= len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"{name}-{partition}")
        return topic.partitions[partition]

    def _new_id(self, name: str) -> str:
        if not self.has_topic_ids:
            return topic_id_text(derive_topic_id(CLUSTER_ID, name))
        self._made += 1
        raw = self._made.to_bytes(4, "big") * 4
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def _broker(self, name: str, partition: int) -> int:
        return self.brokers[(zlib.crc32(name.encode()) + partition) % len(self.brokers)]

    def _changed(self, text: str) -> None:
        view = {
            name: TopicView(
                topic.topic_id,
                tuple(log.leader for log in topic.partitions),
                tuple(log.leader_epoch for log in topic.partitions),
            )
            for name, topic in self.topics.items()
        }
        self._metadata.append((self._clock.now_ms, view))
        self._trace.add("kafka", text)
