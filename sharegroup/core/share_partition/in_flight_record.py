"""The state of a record in flight."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.types import RecordState, is_reserved


class InFlightRecord(NamedTuple):
    """The state of each record of a range.

    `member_id` holds an ACQUIRED record until `lock_deadline_ms`. For an AVAILABLE record, it is the previous holder if
    the record was lost by a lock timeout or a departure. For a reserved record, it is the reserver.

    `batch_first`..`batch_last` is the fetch batch of the record, which throttling uses: the range that one fetch read
    from the log, or one batch of the loaded state. Terminal and reserved records have none (-1, -1), so that they fuse.
    """

    state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None
    batch_first: int = -1
    batch_last: int = -1

    @property
    def is_reserved(self) -> bool:
        """Whether a gateway holds the record for its members, and no member was sent it (`reservation`)."""
        return is_reserved(self.state, self.delivery_count)
