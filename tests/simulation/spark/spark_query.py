"""The query of a simulated Spark member: batches in sequence, as Spark and `BatchRunner` run them.

    claimed -> planned (in the offset log) -> begun -> the sink's append -> acknowledged -> finished (in the commit log)

The process may die at each of these points. A start repeats a batch that is planned and not finished.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from kafka.errors import KafkaError

from sharegroup.member.batch_calls import PendingAcknowledge, PendingBegin, ResponseTimeoutError
from sharegroup.member.member_logic import MemberLogic, Request
from sharegroup.member.ranges import AssignedPartition, OfferedBatch
from sharegroup.spark.share_consumer.acknowledgements import PresentOffsets, acknowledge_all, mark_gaps
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from sharegroup.types import AcknowledgeType
from tests.simulation.judges.sink_judge import SinkJudge
from tests.simulation.members.simulated_sink import SimulatedSink, SinkKey, SinkWrite, records_of
from tests.simulation.process_time import ProcessTime
from tests.simulation.spark.spark_checkpoint import MemoryOffers, SparkCheckpoint
from tests.simulation.spark.spark_witness import SparkWitness

#: The points at which a process may die in a batch: before the named step, but after "appended" and "acknowledged".
POINTS = ("claimed", "planned", "begun", "appended", "acknowledging", "acknowledged", "finished")
#: The time after which a query retries to append acknowledgements.
_PAUSE_MS = 1_000
Send = Callable[[list[Request], Callable[[bool], None]], None]


@dataclass(frozen=True)
class SinkPlace:
    """The table that a member appends to, and its check."""

    sink: SimulatedSink
    judge: SinkJudge


class SparkQuery:
    """The batches of one process. `point` returns whether the process dies there, `send` appends rows durably,
    `on_error` is called with the error that ends the query. `work_ms` returns the duration of a batch, None for a
    handler that fails."""

    def __init__(
        self,
        time: ProcessTime,
        random: Random,
        checkpoint: SparkCheckpoint,
        place: SinkPlace,
        witness: SparkWitness,
        work_ms: Callable[[], float | None],
        point: Callable[[str], bool],
        send: Send,
        wake: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._time, self._random, self._checkpoint, self._place = time, random, checkpoint, place
        self._witness, self._work_ms = witness, work_ms
        self._point, self._send, self._wake, self._on_error = point, send, wake, on_error
        self.offers = MemoryOffers(self._look_soon)
        self.logic: MemberLogic
        self._is_busy = True
        self._has_failed = False
        self._waiting: Callable[[], bool] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a batch runs or certainly will."""
        return self._is_busy and not self._has_failed

    def start(self) -> None:
        """Run the unfinished batch, or wait for the first offer."""
        unfinished = self._checkpoint.unfinished
        if unfinished is not None:
            self._begin(unfinished)
        else:
            self._next()

    def answered(self) -> None:
        """Let all waits for responses check again, because the member has handled some."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not self._has_come(waiting):
            self._waiting = waiting

    # -- from offer to offset log ----------------------------------------------------------------------------------

    def _next(self) -> None:
        self._is_busy = False
        self._look_soon()

    def _look_soon(self) -> None:
        self._time.after(self._random.uniform(5, 300), self._claim)

    def _claim(self) -> None:
        batch = None if self._is_busy else self.offers.claim()
        if batch is None:
            return
        self._is_busy = True
        if not self._point("claimed"):
            self._time.after(self._random.uniform(5, 50), lambda: self._plan(batch))

    def _plan(self, batch: OfferedBatch) -> None:
        self._checkpoint.offsets.append(batch)
        if not self._point("planned"):
            self._time.after(self._random.uniform(5, 100), lambda: self._begin(batch))

    # -- as BatchRunner --------------------------------------------------------------------------------------------

    def _begin(self, planned: OfferedBatch) -> None:
        offered = OfferedBatch.from_rows(planned.rows())
        beginning = self.logic.begin(offered, self._time.now_ms)
        self._wait(lambda: self._has_begun(offered, beginning), beginning.deadline_ms)

    def _has_begun(self, offered: OfferedBatch, beginning: PendingBegin) -> bool:
        ranges = beginning.poll(self._time.now_ms)
        if ranges is None:
            return False
        if ranges:
            batch_id = self._checkpoint.commits
            query_id, incarnation = self._checkpoint.query_id, self.logic.incarnation
            batch = AcquiredBatch.from_offer(offered, ranges, query_id, batch_id, incarnation)
            self._witness.begins(offered, batch)
            if not self._point("begun"):
                self._handle(offered, batch)
        else:
            self._finish(offered)
        return True

    def _handle(self, offered: OfferedBatch, batch: AcquiredBatch) -> None:
        work_ms = self._work_ms()
        if work_ms is None:
            self._time.after(50, lambda: self._handled(offered, batch, "the handler raised"))
            return
        write = SinkWrite(
            self._time,
            self._place.sink,
            batch,
            lambda: self.logic.holds_batch(self._time.now_ms),
            lambda rows: self._appended(batch, rows),
            lambda error: self._handled(offered, batch, error, write.read),
        )
        write.start(work_ms, self._random.uniform(5, 200))

    def _appended(self, batch: AcquiredBatch, rows: list[SinkKey]) -> None:
        self._witness.tells(f"batch {batch.batch_id} appends {len(rows)} records", batch)
        self._place.judge.appended(self._witness.member_id, batch, rows)

    def _handled(self, offered: OfferedBatch, batch: AcquiredBatch, error: str, read: Sequence[SinkKey] = ()) -> None:
        if error:
            self._witness.tells(f"batch {batch.batch_id} fails: {error}", batch)
        else:
            self._place.judge.accepts(self._witness.member_id, read)
        if self._point("appended"):
            return
        said = acknowledge_all(batch.ranges, AcknowledgeType.RELEASE if error else AcknowledgeType.ACCEPT)
        with contextlib.suppress(KafkaError):  # as `PresentRecords`: without a response all is accepted
            said = mark_gaps(said, self._present(batch))
        acknowledging = self.logic.acknowledge(said, batch.ranges, self._time.now_ms)
        self._wait(lambda: self._may_append(offered, acknowledging), acknowledging.deadline_ms)

    def _present(self, batch: AcquiredBatch) -> PresentOffsets:
        found: dict[AssignedPartition, list[int]] = {held.share_partition: [] for held in batch.ranges}
        for held in batch.ranges:
            for share_partition, offset in records_of(self._place.sink.kafka, held):
                found[share_partition].append(offset)
        return {share_partition: np.sort(np.array(at, dtype=np.int64)) for share_partition, at in found.items()}

    def _may_append(self, offered: OfferedBatch, acknowledging: PendingAcknowledge) -> bool:
        if not acknowledging.may_append(self._time.now_ms):
            return False
        self._append(offered, acknowledging)
        return True

    def _append(self, offered: OfferedBatch, acknowledging: PendingAcknowledge) -> None:
        def sent(in_time: bool) -> None:
            if in_time:
                acknowledging.mark_appended()
            self._after_append(offered, acknowledging)

        try:
            requests: list[Request] = [*acknowledging.due_requests(self._time.now_ms)]
        except ResponseTimeoutError as error:
            self._fail(error)
            return
        if requests:
            self._send(requests, sent)
            self._point("acknowledging")
        else:
            self._after_append(offered, acknowledging)

    def _after_append(self, offered: OfferedBatch, acknowledging: PendingAcknowledge) -> None:
        if not acknowledging.is_done:
            self._time.after(_PAUSE_MS, lambda: self._append(offered, acknowledging))
        elif not self._point("acknowledged"):
            self._finish(offered)

    def _finish(self, offered: OfferedBatch) -> None:
        self.logic.finish(offered.seq, self._time.now_ms)
        self._time.after(self._random.uniform(5, 100), self._commit)

    def _commit(self) -> None:
        self._checkpoint.commits += 1
        if not self._point("finished"):
            self._next()

    # -- waits -----------------------------------------------------------------------------------------------------

    def _wait(self, poll: Callable[[], bool], deadline_ms: int) -> None:
        """Poll now, after each step of the member, and after the deadline, until it is done or raises."""
        if not self._has_come(poll):
            self._waiting = poll
            self._wake()
            self._time.after(deadline_ms - self._time.now_ms + 50, self.answered)

    def _has_come(self, poll: Callable[[], bool]) -> bool:
        try:
            return poll()
        except ResponseTimeoutError as error:
            self._fail(error)
            return True

    def _fail(self, error: Exception) -> None:
        self._waiting = None
        self._has_failed = True
        self._on_error(error)
