"""The running batch, in the form in which its handler and `DeltaSink` use it. This module does no I/O."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.member.ranges import HeldRange, OfferedBatch


class AcquiredBatch(NamedTuple):
    """The running batch, for handlers that need more than its records.

    Attributes:
        query_id: the id of the Spark query, which does not change at a restart.
        batch_id: the number of the batch in the query.
        ranges: the acquired ranges with their delivery counts.
        is_rerun: whether an earlier process of the member offered the batch. That process may have run the handler.
        incarnation: identifies this process; it changes at each restart.
    """

    query_id: str
    batch_id: int
    ranges: tuple[HeldRange, ...]
    is_rerun: bool = False
    incarnation: str = ""

    @classmethod
    def from_offer(
        cls, offered: OfferedBatch, ranges: tuple[HeldRange, ...], query_id: str, batch_id: int, incarnation: str
    ) -> AcquiredBatch:
        """Return the running batch for an offered batch.

        `ranges` are its ranges that the member still holds. `incarnation` identifies this process.
        """
        return cls(query_id, batch_id, ranges, offered.incarnation != incarnation, incarnation)


def ranges_delivered_before(batch: AcquiredBatch) -> list[HeldRange]:
    """Return the ranges whose records an earlier run or an earlier delivery may have appended to the sink's table."""
    return [held for held in batch.ranges if batch.is_rerun or held.delivery_count > 1]


def transaction_id(batch: AcquiredBatch) -> str:
    """Return the value of Delta's option txnAppId. It is different in each process that runs the batch.

    When another process repeats the batch, the batch may contain other records. With the same txnAppId, Delta would
    not write them.
    """
    return f"{batch.query_id}/{batch.incarnation}"
