"""Runs a batch in foreachBatch: reads its records, calls the handler, and acknowledges the records."""

import logging
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from sharegroup.log_fields import LogFields
from sharegroup.member.member import Member
from sharegroup.member.ranges import OfferedBatch
from sharegroup.spark.share_consumer.acknowledgements import (
    Acknowledgements,
    InvalidResultError,
    acknowledge_all,
    acknowledge_with_exceptions,
    exception_runs,
)
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from sharegroup.spark.share_consumer.present_records import PresentRecords
from sharegroup.spark.share_consumer.records import acquired_records, result_table
from sharegroup.types import AcknowledgeType

logger = logging.getLogger(__name__)

Handler = Callable[[DataFrame, int], "DataFrame | None"]


class BatchRunner:
    """The function that foreachBatch calls for each batch: it calls the handler, and acknowledges the records.

    If the handler fails, the batch is released. After `max_failures` failures in a row, `on_give_up` is called.
    """

    def __init__(
        self,
        member: Member,
        handle: Handler,
        reader_options: Mapping[str, str],
        include_headers: bool,
        max_failures: int,
        on_give_up: Callable[[], None],
    ) -> None:
        self.handler_errors = 0
        self.last_handler_error: BaseException | None = None
        self.current: AcquiredBatch | None = None
        self._member, self._handle = member, handle
        self._reader_options, self._include_headers = reader_options, include_headers
        self._max_failures, self._on_give_up = max_failures, on_give_up
        self._failures_in_a_row = 0
        self.query_id: Callable[[], str] = str

    @property
    def has_given_up(self) -> bool:
        """Whether the last `max_failures` batches failed."""
        return self._failures_in_a_row >= self._max_failures

    @property
    def holds_batch(self) -> bool:
        """Whether the member still has all locks of the current batch, so that no other member can get its records."""
        return self._member.holds_batch()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Run the batch whose ranges are in `rows`. On return its acknowledgements are durable.

        Spark then commits the batch. Nothing is done for a batch without ranges. Raises ResponseTimeoutError as
        `Member.acknowledge` does.
        """
        batch = OfferedBatch.from_rows(tuple(row) for row in rows.collect())
        if not batch.ranges:
            return
        ranges = self._member.begin(batch)
        if ranges:
            self.current = AcquiredBatch.from_offer(batch, ranges, self.query_id(), batch_id, self._member.incarnation)
            try:
                self._member.acknowledge(self._run(rows, self.current), ranges)
            finally:
                self.current = None
        self._member.finish(batch.seq)

    def _run(self, rows: DataFrame, batch: AcquiredBatch) -> Acknowledgements:
        spark = rows.sparkSession
        try:
            present = PresentRecords(
                acquired_records(spark, batch.ranges, self._reader_options, self._include_headers), batch.ranges
            )
            acknowledgements = self._acknowledgements(batch, self._handle(present.records, batch.batch_id))
            acknowledgements = present.mark_gaps(acknowledgements)
        except BaseException as error:  # noqa: BLE001 - even sys.exit(), which would silently end only py4j's thread
            self._failed(batch, error)
            return acknowledge_all(batch.ranges, AcknowledgeType.RELEASE)
        self._failures_in_a_row = 0
        return acknowledgements

    def _acknowledgements(self, batch: AcquiredBatch, result: DataFrame | None) -> Acknowledgements:
        if result is None:
            return acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT)
        if not isinstance(result, DataFrame):
            raise InvalidResultError(f"the handler must return None or a DataFrame, not {type(result).__name__}")
        table = result_table(result)
        return acknowledge_with_exceptions(batch.ranges, exception_runs(table, batch.ranges))

    def _failed(self, batch: AcquiredBatch, error: BaseException) -> None:
        self.handler_errors += 1
        self._failures_in_a_row += 1
        self.last_handler_error = error
        records = sum(held.size for held in batch.ranges)
        logger.error(
            "the handler failed in batch %(batch)d (%(count)d in a row); %(records)d records are released",
            LogFields(batch=batch.batch_id, count=self._failures_in_a_row, records=records),
            exc_info=error,
        )
        if self.has_given_up:
            self._on_give_up()
