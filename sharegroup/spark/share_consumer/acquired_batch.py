"""A running batch as its handler and `DeltaSink` use it. No I/O."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.member.ranges import HeldRange, OfferedBatch


class AcquiredBatch(NamedTuple):
    """The running batch, for handlers that need more than its records.

    `query_id` stays the same over restarts; `batch_id` is the batch's number in the query; `ranges` are the acquired
    ranges with their delivery counts. `is_rerun`: an earlier process has begun the batch. `incarnation` identifies this
    process and changes with each restart.
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
        """Return the batch as a process begins it; `ranges` are those offered ranges that the member still holds."""
        return cls(query_id, batch_id, ranges, offered.incarnation != incarnation, incarnation)


def ranges_delivered_before(batch: AcquiredBatch) -> list[HeldRange]:
    """Return the ranges whose records the sink may already contain."""
    return [held for held in batch.ranges if batch.is_rerun or held.delivery_count > 1]


def transaction_id(batch: AcquiredBatch) -> str:
    """Return Delta's txnAppId; each run of a batch is a transaction of its own."""
    return f"{batch.query_id}/{batch.incarnation}"
