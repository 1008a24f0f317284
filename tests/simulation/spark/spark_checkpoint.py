"""The parts of a Spark member that survive its process, its checkpoint, and the offers of one process to its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sharegroup.member.ranges import OfferedBatch


@dataclass
class SparkCheckpoint:
    """The query's id, its offset log, and the number of its committed batches."""

    query_id: str
    offsets: list[OfferedBatch] = field(default_factory=list)
    commits: int = 0

    @property
    def unfinished(self) -> OfferedBatch | None:
        """Return the batch that a start repeats."""
        return self.offsets[self.commits] if self.commits < len(self.offsets) else None


class MemoryOffers:
    """`offer_file` without files: `on_offer` is called when there is something to claim."""

    def __init__(self, on_offer: Callable[[], None]) -> None:
        self._on_offer = on_offer
        self._offer: OfferedBatch | None = None

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch and report it."""
        self._offer = batch
        self._on_offer()

    def is_claimed(self) -> bool:
        """Return whether the offer was claimed."""
        return self._offer is None

    def withdraw(self) -> bool:
        """Withdraw the offer unless it is claimed."""
        return self.claim() is not None

    def close(self) -> None:
        """Announce that no further offer follows."""

    def claim(self) -> OfferedBatch | None:
        """Claim and return the offered batch."""
        offer, self._offer = self._offer, None
        return offer
