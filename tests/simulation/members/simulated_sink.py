"""A Delta table in memory to which `DeltaSink`s of a group append, and one append as `DeltaSink` makes it.

The keys that are checked before, and the transaction, are the real ones. Spark jobs take time, during which the locks
are watched as in `lock_guard`; the commit always follows the last job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafka.errors import KafkaError

from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch, ranges_delivered_before, transaction_id
from sharegroup.spark.share_consumer.lock_guard import WATCH_S
from tests.simulation.brokers.kafka_log import LogBatch, PartitionLog, SimulatedKafka
from tests.simulation.process_time import ProcessTime

SinkKey = tuple[AssignedPartition, int]


class SimulatedSink:
    """The table. `rows` contains the batch that appended each record; `skipped` counts transactions known to Delta."""

    def __init__(self, kafka: SimulatedKafka) -> None:
        self.kafka = kafka
        self.rows: dict[SinkKey, list[str]] = {}
        self.skipped = 0
        self._versions: dict[str, int] = {}

    def present(self, ranges: Iterable[HeldRange]) -> set[SinkKey]:
        """Return the records of the ranges that the table contains."""
        return {key for key in _keys(ranges) if key in self.rows}

    def append(self, transaction: str, version: int, rows: Iterable[SinkKey]) -> bool:
        """Commit, unless the transaction is known in this version or a later one."""
        if self._versions.get(transaction, -1) >= version:
            self.skipped += 1
            return False
        self._versions[transaction] = version
        for key in rows:
            self.rows.setdefault(key, []).append(f"{transaction} {version}")
        return True


class SinkWrite:
    """One append: `appended` is called with the records of a commit, `then` with the error ("": none). `read` are the
    records of the batch."""

    def __init__(
        self,
        time: ProcessTime,
        sink: SimulatedSink,
        batch: AcquiredBatch,
        is_held: Callable[[], bool],
        appended: Callable[[list[SinkKey]], None],
        then: Callable[[str], None],
    ) -> None:
        self._time, self._sink, self._batch, self._is_held = time, sink, batch, is_held
        self._appended, self._then = appended, then
        self.read: list[SinkKey] = []
        self._rows: list[SinkKey] = []

    def start(self, work_ms: float, commit_ms: float) -> None:
        """Check the table, read the records, and work."""
        if not self._is_held():
            self._then("LocksLostError before it")
            return
        present = self._sink.present(ranges_delivered_before(self._batch))
        try:
            self.read = [key for held in self._batch.ranges for key in records_of(self._sink.kafka, held)]
        except KafkaError as error:
            self._then(f"{type(error).__name__}")
            return
        self._rows = [key for key in self.read if key not in present]
        self._work(work_ms, commit_ms)

    def _work(self, left_ms: float, commit_ms: float) -> None:
        part_ms = min(left_ms, WATCH_S * 1000)
        due_ms = self._time.now_ms + part_ms
        self._time.after(part_ms, lambda: self._worked(left_ms - part_ms, due_ms, commit_ms))

    def _worked(self, left_ms: float, due_ms: float, commit_ms: float) -> None:
        """Continue after the work; after a suspension the watch is due first."""
        has_stood_still = self._time.now_ms > due_ms + 1
        if (left_ms > 0 or has_stood_still) and not self._is_held():
            self._then("LocksLostError in it")
        elif left_ms > 0:
            self._work(left_ms, commit_ms)
        else:
            self._time.after_at_all_costs(commit_ms, self._commit)

    def _commit(self) -> None:
        if self._sink.append(transaction_id(self._batch), self._batch.batch_id, self._rows):
            self._appended(self._rows)
        self._time.after(0, lambda: self._then(""))


def records_of(kafka: SimulatedKafka, held: HeldRange) -> Iterator[SinkKey]:
    """Yield the records of a range as Spark's reader finds them, by the topic's name. Raises KafkaError."""
    log = kafka.log(held.topic, held.partition)
    for batch in log.read(held.first_offset, held.last_offset + 1):
        if not (held.read_committed and _is_hidden(log, batch)):
            for record in batch.records:
                is_there = log.log_start_offset <= record.offset
                if is_there and held.first_offset <= record.offset <= held.last_offset:
                    yield held.share_partition, record.offset


def _is_hidden(log: PartitionLog, batch: LogBatch) -> bool:
    """Return whether its transaction was aborted or is open."""
    if not batch.producer:
        return False
    open_from = log.open.get(batch.producer)
    return (open_from is not None and batch.base_offset >= open_from) or any(
        producer == batch.producer and first <= batch.base_offset < marker for producer, first, marker in log.aborted
    )


def _keys(ranges: Iterable[HeldRange]) -> Iterator[SinkKey]:
    for held in ranges:
        for offset in range(held.first_offset, held.last_offset + 1):
            yield held.share_partition, offset
