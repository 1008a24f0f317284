"""How large a share-partition's window is, as its operator tells after each run that touched it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class WindowSizes(NamedTuple):
    """Offsets as in `share_group_state`. `log_end_offset` is -1 while nobody has told it; `is_led` is False for a
    share-partition that is not here any more, of which nothing else is said."""

    group_id: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int = 0
    end_offset: int = 0
    delivery_complete_count: int = 0
    available_count: int = 0
    log_end_offset: int = -1
    is_led: bool = True

    @classmethod
    def of(cls, values: Sequence[Any]) -> WindowSizes:
        """Of its values, in order."""
        return cls(*values)

    @property
    def in_flight(self) -> int:
        """Records from the start offset to the end offset, finished or not."""
        return self.end_offset - self.start_offset

    @property
    def acquired(self) -> int:
        """Records that members hold. (What nobody knows the state of counts, too: only states of others have such.)"""
        return max(0, self.in_flight - self.delivery_complete_count - self.available_count)

    @property
    def lag(self) -> int:
        """Records that are not finished (KIP-1226); of what is in flight alone, where the log's end is not known."""
        return max(self.log_end_offset, self.end_offset) - self.start_offset - self.delivery_complete_count

    @property
    def available(self) -> int:
        """Records that members could get: the lag without what is acquired."""
        return max(0, self.lag - self.acquired)
