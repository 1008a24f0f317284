"""Determines which offsets of a batch have a record. The others are acknowledged as gaps instead of accepted.

A log has offsets without a record: transaction markers, records of aborted transactions, and compacted records. Spark's
reader skips them silently. Therefore the records that the handler reads are counted with an `Observation`. If the count
equals the number of offsets in the batch, there is no gap. Otherwise the offsets of the batch are read in a second
pass, because the handler may have read only a part of the batch, for example with `limit` or `isEmpty`.
"""

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.log_fields import LogFields
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acknowledgements import Acknowledgements, PresentOffsets, mark_gaps

logger = logging.getLogger(__name__)

_RECORDS = "records"


class PresentRecords:
    """Finds the offsets of a batch that have no record (gaps).

    The attribute `records` is the DataFrame for the handler. Spark counts the records that the handler reads, so that a
    batch without gaps needs no second read.
    """

    def __init__(self, records: DataFrame, ranges: Sequence[HeldRange]) -> None:
        self._unobserved, self._ranges = records, ranges
        self._count = Observation()
        self.records = records.observe(self._count, F.count(F.lit(1)).alias(_RECORDS))

    def mark_gaps(self, acknowledgements: Acknowledgements) -> Acknowledgements:
        """Return the acknowledgements, with the type GAP instead of ACCEPT for offsets without a record.

        If a second read is necessary and fails, the acknowledgements are returned unchanged.
        """
        if self._are_all_there():
            return acknowledgements
        try:
            offsets = self._unobserved.select("topic", F.col("partition").cast("long"), "offset").toArrow()
        except Exception as error:  # noqa: BLE001 - the records are handled and must not be delivered again
            logger.warning(
                "failed to read the offsets of a batch; gaps in it are sent as ACCEPT, not GAP: %(error)s",
                LogFields(error=error),
            )
            return acknowledgements
        return mark_gaps(acknowledgements, present_offsets(offsets, self._ranges))

    def _are_all_there(self) -> bool:
        """Return whether the handler's first Spark action has read as many records as the batch has offsets.

        Return False if the handler ran no action, or if the action failed or has not ended yet.
        """
        observed = self._count._jo
        if observed is None or not observed.future().isCompleted():
            return False
        try:
            count = self._count.get[_RECORDS]
        except Exception:  # noqa: BLE001 - the action failed, but the handler continued
            return False
        return bool(count == sum(held.size for held in self._ranges))


def present_offsets(offsets: pa.Table, ranges: Sequence[HeldRange]) -> PresentOffsets:
    """Return {share-partition: offsets, ascending}. `offsets` has the columns topic, partition and offset."""
    found: dict[AssignedPartition, np.ndarray] = {}
    for share_partition in {held.share_partition for held in ranges}:
        is_it = pc.and_(
            pc.equal(offsets.column("topic"), share_partition.topic),
            pc.equal(offsets.column("partition"), share_partition.partition),
        )
        found[share_partition] = np.sort(offsets.column("offset").filter(is_it).to_numpy())
    return found
