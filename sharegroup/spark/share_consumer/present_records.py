"""Which offsets of a batch hold a record. The others are acknowledged as gaps, not accepted.

A log has offsets without a record: transaction markers, records of aborted transactions, and what compaction removed.
Spark's reader passes over them and does not say so. The records that the handler reads are counted (an `Observation`).
As many as the batch has offsets means that there is no gap. Else the offsets are read once more, by themselves: the
handler may have read a part only, as `limit` or `isEmpty` does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acknowledgements import Acknowledgements, PresentOffsets, with_gaps

logger = logging.getLogger(__name__)

_RECORDS = "records"


class PresentRecords:
    """`records` are those of the ranges, counted, for the handler."""

    def __init__(self, records: DataFrame, ranges: Sequence[HeldRange]) -> None:
        self._unobserved, self._ranges = records, ranges
        self._count = Observation()
        self.records = records.observe(self._count, F.count(F.lit(1)).alias(_RECORDS))

    def mark_gaps(self, acknowledgements: Acknowledgements) -> Acknowledgements:
        """Acknowledge as gaps what is accepted and holds no record. All is accepted if the offsets cannot be read."""
        if self._are_all_there():
            return acknowledgements
        try:
            offsets = self._unobserved.select("topic", F.col("partition").cast("long"), "offset").toArrow()
        except Exception as error:  # noqa: BLE001 - the handler is through: its records are not to come again
            logger.warning("the offsets of a batch cannot be read, gaps in it are accepted: %s", error)
            return acknowledgements
        return with_gaps(acknowledgements, present_offsets(offsets, self._ranges))

    def _are_all_there(self) -> bool:
        """Whether the handler's first action has read as many records as there are offsets. It waits for nothing."""
        observed = self._count._jo
        if observed is None or not observed.future().isCompleted():
            return False
        try:
            count = self._count.get[_RECORDS]
        except Exception:  # noqa: BLE001 - the action failed, and the handler went on
            return False
        return bool(count == sum(held.size for held in self._ranges))


def present_offsets(offsets: pa.Table, ranges: Sequence[HeldRange]) -> PresentOffsets:
    """By share-partition, ascending; `offsets` has the columns topic, partition and offset."""
    found: dict[AssignedPartition, np.ndarray] = {}
    for share_partition in {held.share_partition for held in ranges}:
        is_it = pc.and_(
            pc.equal(offsets.column("topic"), share_partition.topic),
            pc.equal(offsets.column("partition"), share_partition.partition),
        )
        found[share_partition] = np.sort(offsets.column("offset").filter(is_it).to_numpy())
    return found
