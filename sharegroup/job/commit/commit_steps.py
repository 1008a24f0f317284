"""The five commit steps of a micro-batch, for both queries (the numbers are those of docs/commit_steps.md).

1. The operator's output is collected on the driver. This is the batch's only Spark action, and it always runs.
2. The first table (share_group_state, share_groups) is committed, with the batch's *outbox* in the commit's info: the
   rows that steps 3 to 5 write and send.
3. The other tables of current state are committed.
4. The responses, and the requests to the other query, are produced to Kafka and flushed.
5. The rows of append-only tables are submitted for a deferred write (`deferred_rows`). Spark then commits the batch.

Recovery. If the job dies after any step, the next run computes the same rows from the same input and skips what is
done. A batch that computes other rows is rejected (`repeated_batch`). If the checkpoint is lost too, the batch cannot
be computed again. Step 2 therefore commits the outbox together with the state. `complete_last_batch` does what remains
of steps 3 to 5 from the outbox. The commit of step 2 also contains the next unread offsets of the request topic
(`positions`). The outbox also contains the deferred rows of earlier batches.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sharegroup.core.operators.output import Output
from sharegroup.job.commit.current_rows import CHUNK_ROWS, CurrentRows
from sharegroup.job.commit.deferred_rows import (
    DeferredBatch,
    DeferredRows,
    TaskRunner,
    run_immediately,
    stamp_batches,
    write_deferred,
)
from sharegroup.job.commit.lost_commits import (
    RECOVERED_APP_ID,
    LeaderBatch,
    LostBatches,
    read_lost_rows,
    roll_back_tables,
)
from sharegroup.job.commit.repeated_batch import ENTRY, batch_entry, reject_other_effects
from sharegroup.job.commit.table_rows import stamp_rows
from sharegroup.job.lead.stale_checkpoint import COMMITTED
from sharegroup.kafka_clients.job_clock import BrokersTime
from sharegroup.log_fields import LogFields
from sharegroup.protocol.json_text import pack_text, to_json, unpack_json
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import Info, Row, Write
from sharegroup.types import WaitsFor

logger = logging.getLogger(__name__)

#: The Delta transaction id of rows that a leader writes outside its batches. The transaction version is the leader
#: epoch.
_LEADER_ROWS_APP_ID = "sharegroup.leader_rows"
#: The maximum number of deferred rows of a table. It is limited because each commit's outbox carries these rows.
_MAX_DEFERRED_ROWS = 20_000
#: If there are more deferred rows than this, they are written without a pause. To carry them in each outbox would cost
#: as much as a commit.
_MAX_CARRIED_ROWS = 500

FaultPoint = Callable[[int, int], None]


class RowProducer(Protocol):
    """Sends the rows of step 4 (implemented by `kafka_clients.kafka_clients.KafkaRowProducer`)."""

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Produce all rows, and return when the broker has acknowledged them. `requests` are (key, value) texts."""


@dataclass
class Batch:
    """A micro-batch's effects: the outputs of all operator keys, merged. `Output` describes the fields."""

    batch_id: int
    now_ms: int = 0
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    responses: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    rejected: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    deadlines: dict[str, int | None] = field(default_factory=dict)
    waiting: dict[str, WaitsFor] = field(default_factory=dict)
    reservers: dict[str, list[str]] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    windows: list[list[Any]] = field(default_factory=list)
    #: The brokers' time that the operators received; None if it is not known.
    time: BrokersTime | None = None

    @classmethod
    def from_outputs(cls, batch_id: int, outputs: Iterable[Output], time: BrokersTime | None = None) -> Self:
        """Merge the outputs in the order of their keys, so that every run of the batch produces the same rows."""
        batch = cls(batch_id, time=time)
        for output in sorted(outputs, key=lambda output: output.key):
            batch.now_ms = max(batch.now_ms, output.now_ms)
            for table, rows in output.tables.items():
                batch.tables.setdefault(table, []).extend(rows)
            batch.responses += output.responses
            batch.requests += [(key, value) for key, value in output.requests]
            batch.rejected += output.rejected
            batch.notes += output.notes
            batch.windows += output.windows
            for partition, position in output.positions.items():
                batch.positions[partition] = max(position, batch.positions.get(partition, 0))
            batch.deadlines[output.key] = output.deadline_ms
            batch.waiting[output.key] = output.waiting
            batch.reservers[output.key] = output.reservers
            for gateway, end_ms in output.leases.items():
                batch.leases[gateway] = max(end_ms, batch.leases.get(gateway, 0))
        return batch

    @property
    def has_effects(self) -> bool:
        """Return whether the batch must be committed: it has read requests, or has changes (see `has_changes`)."""
        return bool(self.positions) or self.has_changes

    @property
    def has_changes(self) -> bool:
        """Return whether the batch has a response, a request or a changed row.

        A batch of probes, for example, has none.
        """
        return bool(self.responses or self.requests or any(self.tables.values()))


class CommitSteps:
    """Runs steps 2 to 5 for the batches of one query, and completes the previous leader's batch after a start.

    The caller sets `query_id` to the id of the streaming query, which is new for each checkpoint. The query's name is
    not sufficient: with a new checkpoint, batch ids restart at 0, so the batches would be skipped as repeated.

    `writers` are those of the query's tables; the first one writes the table of step 2. `fault_point` is called with
    (step, batch id) after each of the steps 1 to 4, and with step 0 when a batch begins. `chunk_rows` is the maximum
    number of rows in a chunk (see `current_rows`). `later` runs the writes of append-only tables; by default they
    finish before `commit` returns.
    """

    def __init__(
        self,
        writers: Sequence[TableWriter],
        producer: RowProducer,
        fault_point: FaultPoint | None = None,
        chunk_rows: int = CHUNK_ROWS,
        later: TaskRunner = run_immediately,
    ) -> None:
        self._first, *others = writers
        self._others = [writer for writer in others if not writer.spec.is_append_only]
        self._growing = [writer for writer in others if writer.spec.is_append_only]
        self._deferred = [DeferredRows(writer) for writer in self._growing]
        self._run_task = later
        self._producer = producer
        self._fault_point = fault_point or (lambda step, batch_id: None)
        self._chunk_rows = chunk_rows
        self._current: dict[str, CurrentRows] = {}
        self._lost: dict[str, LostBatches] = {}
        self.query_id = ""
        #: The configured values that the batches' effects depend on: see `repeated_batch.effect_rules`.
        self.rules: Mapping[str, int] = {}
        self.leader_epoch = 0
        self.positions: dict[int, int] = positions_in(self._first.last_info)

    @property
    def writers(self) -> tuple[TableWriter, ...]:
        """The query's writers, in the order in which the steps use them."""
        return (self._first, *self._others, *self._growing)

    @property
    def last_info(self) -> Info | None:
        """The info of the newest commit (query id, batch id, positions, outbox); None before the first batch."""
        return self._first.last_info

    def become_leader(self, leader_epoch: int | None = None) -> int:
        """Become the leader of all tables, read what the previous leader wrote, and return the leader epoch.

        A job that competes with others passes the epoch that `job_lead` assigned. With None, the epoch is one above the
        highest in the tables. The first table is fenced first, so the previous leader cannot begin another batch. That
        leader may still commit its last batch to the other tables; the outbox contains these rows too. Tables that are
        ahead of the first table are rolled back (`lost_commits`). Raises FencedLeaderError if a table has this or a
        higher epoch.
        """
        epochs = {writer.spec.name: writer.leader_epoch for writer in self.writers}
        self.leader_epoch = leader_epoch or 1 + max(epochs.values())
        for writer in self.writers:
            writer.become_leader(self.leader_epoch)
        self._lost = roll_back_tables(self._first, self.writers[1:], epochs, self.leader_epoch)
        self._current = {
            writer.spec.name: CurrentRows(writer.spec, writer.read_rows(), self._chunk_rows)
            for writer in self.writers
            if writer.spec.key
        }
        self.positions = positions_in(self._first.last_info)
        return self.leader_epoch

    def newest_batch(self, query_id: str, table: str | None = None) -> int:
        """Return a query's highest batch id in any of the tables, or in the given table; -1 if there is no batch."""
        return max(writer.newest_batch(query_id) for writer in self.writers if table in (None, writer.spec.name))

    def newest_batches(self) -> dict[str, int]:
        """Return {table: id of this query's newest batch in it}, for all tables except `delivery_log`."""
        return {writer.spec.name: writer.newest_batch(self.query_id) for writer in (self._first, *self._others)}

    def complete_last_batch(self) -> None:
        """Complete the newest batch from its outbox: write its rows to the other tables, and send its other rows.

        Each table gets only the rows that it lacks. The responses and requests are always sent again. If a table has
        lost earlier batches, their rows are restored first (`lost_commits`).
        """
        self._complete_lost_batches()
        info = self._first.last_info
        if not info or not info.get("outbox"):
            return
        outbox = unpack_json(info["outbox"])
        query_id, batch_id, now_ms = info["query_id"], info["batch_id"], info["now_ms"]
        for writer in self._others:
            rows = None if writer.spec.name in self._lost else outbox["tables"].get(writer.spec.name)
            if rows and self._commit_current(writer, rows, query_id, batch_id, now_ms):
                _log_completion(writer.spec.name, batch_id)
        for writer in self._growing:
            if writer.spec.name in self._lost:
                continue
            owed = [DeferredBatch(*batch) for batch in outbox.get("late", {}).get(writer.spec.name, ())]
            owed.append(DeferredBatch(batch_id, now_ms, outbox["tables"].get(writer.spec.name, ())))
            owed = [batch for batch in owed if batch.rows]
            if owed and write_deferred(writer, owed, query_id, info["leader_epoch"]):
                _log_completion(writer.spec.name, batch_id)
        self._producer.send(outbox["responses"], [tuple(request) for request in outbox["requests"]])

    def _complete_lost_batches(self) -> None:
        """Restore the rows that other tables have lost, from the outboxes in the commits of the first table.

        If a table was rolled back, it still has the transaction ids of the batches that were removed, and would skip
        new commits with these ids. The rows of such a table are therefore committed under `RECOVERED_APP_ID`.
        """
        for writer in self.writers[1:]:
            lost, newest = self._lost.get(writer.spec.name), self._first.last_info
            batches = read_lost_rows(self._first, writer, lost) if lost else []
            if not lost or not batches or newest is None:
                continue
            app_id, version = RECOVERED_APP_ID, self.leader_epoch
            if not lost.was_rolled_back:
                app_id, version = lost.query_id, newest["batch_id"]
            if writer.spec.key:
                rows = [row for _, batch in batches for row in batch.rows]
                self._commit_current(writer, rows, app_id, version, batches[-1].batch.now_ms)
            else:
                writer.commit(app_id, version, functools.partial(_stamped, batches))

    @property
    def was_rolled_back(self) -> bool:
        """Whether this start rolled back tables that were ahead of the query's first table, which has lost commits.

        The first table is `share_group_state` or `share_groups`. If tables were rolled back, a checkpoint is rejected,
        because it may depend on the lost commits.
        """
        return any(lost.was_rolled_back for lost in self._lost.values())

    @property
    def deferred_rows(self) -> int:
        """The number of rows of append-only tables that are in the outbox but not in their table yet."""
        return sum(deferred.row_count for deferred in self._deferred)

    def current_rows(self, table: str) -> list[Row]:
        """Return the rows of a table of current state. The job must be the leader."""
        return self._current[table].rows()

    def find_row(self, table: str, row: Row) -> Row | None:
        """Return the row of a table of current state that has the same key as `row`; None if there is none.

        The rows are those after the last commit. The job must be the leader.
        """
        return self._current[table].find_row(row)

    def put_rows(self, table: str, rows: Iterable[Row], now_ms: int) -> None:
        """Insert or replace rows of a table of current state. Rows that are marked `DELETED` are removed.

        The commit is not part of a batch. Call this at most once for each table and leader epoch: further calls write
        nothing. Raises FencedLeaderError if another job leads.
        """
        writer = next(writer for writer in self.writers if writer.spec.name == table)
        self._commit_current(writer, rows, _LEADER_ROWS_APP_ID, self.leader_epoch, now_ms)

    def batch_time(self, batch_id: int) -> BrokersTime | None:
        """Return the brokers' time of the batch's first run; None if the batch is not the newest committed one."""
        info = self._first.last_info or {}
        return BrokersTime(*info["time"]) if self._is_of(info, batch_id) else None

    def _is_of(self, info: Info, batch_id: int) -> bool:
        return (info.get("query_id"), info.get("batch_id")) == (self.query_id, batch_id)

    def begin_batch(self, batch_id: int) -> None:
        """Report to `fault_point` that a batch begins. This is step 0."""
        self._fault_point(0, batch_id)

    def commit(self, batch: Batch) -> None:
        """Run steps 2 to 5. Skip a batch without effects. Raises FencedLeaderError if another job leads.

        Raises RepeatedBatchError, without any effect, if the tables have this batch with other effects.
        """
        self._reject_other_effects(batch)
        if not batch.has_effects:
            return
        self.positions |= batch.positions
        self._fault_point(1, batch.batch_id)
        self._commit_first(batch)
        self._fault_point(2, batch.batch_id)
        for writer in self._others:
            rows = batch.tables.get(writer.spec.name)
            if rows:
                self._commit_current(writer, rows, self.query_id, batch.batch_id, batch.now_ms)
        self._fault_point(3, batch.batch_id)
        self._producer.send(batch.responses, batch.requests)
        self._fault_point(4, batch.batch_id)
        self._defer_rows(batch)

    def _reject_other_effects(self, batch: Batch) -> None:
        info = self._first.last_info or {}
        if self._is_of(info, batch.batch_id):
            reject_other_effects(info[ENTRY], batch_entry(batch, self.rules), batch.batch_id)

    def _info(self, batch: Batch) -> Info:
        outbox = {
            "tables": {writer.spec.name: batch.tables.get(writer.spec.name, []) for writer in self.writers[1:]},
            "late": {deferred.spec.name: deferred.pending_batches() for deferred in self._deferred},
            "responses": batch.responses,
            "requests": batch.requests,
        }
        return {
            "query_id": self.query_id,
            "leader_epoch": self.leader_epoch,
            "batch_id": batch.batch_id,
            "now_ms": batch.now_ms,
            "time": batch.time,
            "positions": {str(partition): offset for partition, offset in sorted(self.positions.items())},
            "outbox": pack_text(to_json(outbox)),
            COMMITTED: self._committed_by_others(),
            ENTRY: batch_entry(batch, self.rules),
        }

    def _committed_by_others(self) -> dict[str, int]:
        return {writer.spec.name: writer.newest_batch(self.query_id) for writer in self.writers[1:]}

    def _commit_first(self, batch: Batch) -> None:
        info, rows = self._info(batch), batch.tables.get(self._first.spec.name, [])
        if self._first.spec.key:
            self._commit_current(self._first, rows, self.query_id, batch.batch_id, batch.now_ms, info)
            return

        def added() -> Write:
            stamp = {"leader_epoch": self.leader_epoch, "batch_id": batch.batch_id, "now_ms": batch.now_ms}
            return Write(stamp_rows(rows, **stamp))

        self._first.commit(self.query_id, batch.batch_id, added, info)

    def _defer_rows(self, batch: Batch) -> None:
        """Run step 5: submit rows for a deferred write. If too many rows of a table are deferred, write them now."""
        query_id, leader_epoch = self.query_id, self.leader_epoch
        for deferred in self._deferred:
            rows = batch.tables.get(deferred.spec.name)
            if rows:
                deferred.enqueue(DeferredBatch(batch.batch_id, batch.now_ms, rows))
                urgent = deferred.row_count > _MAX_CARRIED_ROWS
                self._run_task(functools.partial(deferred.write, query_id, leader_epoch), urgent)
            if deferred.row_count > _MAX_DEFERRED_ROWS:
                deferred.write(query_id, leader_epoch)

    def _commit_current(
        self,
        writer: TableWriter,
        rows: Iterable[Row],
        app_id: str,
        batch_id: int,
        now_ms: int,
        info: Info | None = None,
    ) -> bool:
        """Insert, replace or (if marked `DELETED`) remove rows; return False if the table has this batch already."""
        current = self._current[writer.spec.name]
        is_new = writer.commit(app_id, batch_id, lambda: current.stage(rows, now_ms), info)
        if is_new:
            current.apply_staged()
        return is_new


def _stamped(batches: Iterable[LeaderBatch]) -> Write:
    return Write([row for epoch, batch in batches for row in stamp_batches([batch], epoch).rows])


def _log_completion(table: str, batch_id: int) -> None:
    logger.warning(
        "table %(table)s lacked rows of batch %(batch)d; they were written from the outbox",
        LogFields(batch=batch_id, table=table),
    )


def positions_in(info: Info | None) -> dict[int, int]:
    """Return the next unread offsets of the request topic, by partition, from a commit's info."""
    return {int(partition): offset for partition, offset in (info or {}).get("positions", {}).items()}
