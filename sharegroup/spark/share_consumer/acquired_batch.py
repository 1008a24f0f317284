"""What a running batch is to its handler, and what `DeltaSink` makes of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.member.ranges import HeldRange, OfferedBatch


class AcquiredBatch(NamedTuple):
    """What a handler may want to know besides the records: the query's id (it stays the same over restarts), the id of
    the batch in it, the acquired ranges with their delivery counts, whether a process before this one has begun with
    the batch, and which process this one is (`incarnation`, another one after each restart)."""

    query_id: str
    batch_id: int
    ranges: tuple[HeldRange, ...]
    is_rerun: bool = False
    incarnation: str = ""

    @classmethod
    def begun(
        cls, offered: OfferedBatch, ranges: tuple[HeldRange, ...], query_id: str, batch_id: int, incarnation: str
    ) -> AcquiredBatch:
        """The batch as a process begins with it: `ranges` are what of the offered ones the member has."""
        return cls(query_id, batch_id, ranges, offered.incarnation != incarnation, incarnation)


def delivered_before(batch: AcquiredBatch) -> list[HeldRange]:
    """What of the batch the sink may have already."""
    return [held for held in batch.ranges if batch.is_rerun or held.delivery_count > 1]


def transaction_of(batch: AcquiredBatch) -> str:
    """Delta's txnAppId: each run of a batch is a transaction of its own."""
    return f"{batch.query_id}/{batch.incarnation}"
