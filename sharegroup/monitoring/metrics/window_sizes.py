"""The sizes of a share-partition. Its operator reports them after each run that changed the share-partition."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class WindowSizes(NamedTuple):
    """The sizes of a share-partition: offsets and counts, defined as in the table `share_group_state`.

    `end_offset` is the offset after the last record in flight. From there on, `reserved_count` offsets are reserved for
    gateways, and have no records yet. `log_end_offset` is -1 while the end of the log is not known. If `is_managed` is
    False, the operator no longer manages the share-partition, and the sizes have no meaning.
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
    reserved_count: int = 0
    is_managed: bool = True

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Self:
        """Create the sizes from the values of all fields, in the order of the fields."""
        return cls(*values)

    @property
    def in_flight(self) -> int:
        """Number of records from the start offset to the end offset, finished or not."""
        return self.end_offset - self.start_offset

    @property
    def acquired(self) -> int:
        """Number of acquired records.

        Records in flight without a known state count as acquired. They only occur in states that other programs wrote.
        """
        return max(0, self.in_flight - self.delivery_complete_count - self.available_count)

    @property
    def lag(self) -> int:
        """Number of unfinished records (KIP-1226). If the log end offset is not known, only records in flight count."""
        after = max(self.log_end_offset, self.end_offset)
        return after - self.start_offset - self.delivery_complete_count

    @property
    def available(self) -> int:
        """Number of records that members can acquire: the lag minus the acquired records."""
        return max(0, self.lag - self.acquired)
