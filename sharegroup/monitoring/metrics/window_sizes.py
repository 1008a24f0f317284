"""The sizes of a share-partition, which its operator reports after each run that changed it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class WindowSizes(NamedTuple):
    """The sizes of a share-partition: offsets and counts with the meaning that they have in `share_group_state`.

    `log_end_offset` is -1 while it is not known. If `is_managed` is False, the operator no longer manages the
    share-partition, and the sizes have no meaning.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int = 0
    end_offset: int = 0
    delivery_complete_count: int = 0
    available_count: int = 0
    log_end_offset: int = -1
    is_managed: bool = True

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Self:
        """Return the sizes with these values, in the order of the fields."""
        return cls(*values)

    @property
    def in_flight(self) -> int:
        """Number of records from the start offset to the end offset, finished or not."""
        return self.end_offset - self.start_offset

    @property
    def reserved(self) -> int:
        """Number of offsets that are held for gateways after the end of the log, and have no records yet."""
        return min(self._held, max(0, self.end_offset - self.log_end_offset)) if self.log_end_offset >= 0 else 0

    @property
    def acquired(self) -> int:
        """Number of acquired records.

        Records without a known state count as acquired. Only states that other programs wrote have such records.
        """
        return self._held - self.reserved

    @property
    def _held(self) -> int:
        return max(0, self.in_flight - self.delivery_complete_count - self.available_count)

    @property
    def lag(self) -> int:
        """Number of unfinished records (KIP-1226); only of those in flight if the log end offset is not known."""
        after = max(self.log_end_offset, self.end_offset)
        return after - self.start_offset - self.delivery_complete_count - self.reserved

    @property
    def available(self) -> int:
        """Number of records that members can acquire: the lag without acquired records."""
        return max(0, self.lag - self.acquired)
