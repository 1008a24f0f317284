"""What of a Spark member survives its process: the checkpoint; and the offers of one process to its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sharegroup.member.ranges import OfferedBatch


@dataclass
class SparkCheckpoint:
    """The query's id, its offset log and how many of its batches are committed."""

    query_id: str
    offsets: list[OfferedBatch] = field(default_factory=list)
    commits: int = 0

    @property
    def unfinished(self) -> OfferedBatch | None:
        """The batch that a start runs again."""
        return self.offsets[self.commits] if self.commits < len(self.offsets) else None


class MemoryOffers:
    """`offer_file` without files: `on_offer` is called when there is something to claim."""

    def __init__(self, on_offer: Callable[[], None]) -> None:
        self._on_offer = on_offer
        self._offer: OfferedBatch | None = None

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch, and tell of it."""
        self._offer = batch
        self._on_offer()

    def is_claimed(self) -> bool:
        """Whether the offer is gone."""
        return self._offer is None

    def withdraw(self) -> bool:
        """Take it back, if it is not claimed yet."""
        return self.claim() is not None

    def close(self) -> None:
        """There will be no other."""

    def claim(self) -> OfferedBatch | None:
        """The batch on offer, from now on the caller's."""
        offer, self._offer = self._offer, None
        return offer
