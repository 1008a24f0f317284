"""What is known of a record in flight."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.types import RecordState


class InFlightRecord(NamedTuple):
    """What is known of each record of a range.

    `member_id` holds an ACQUIRED record until `lock_deadline_ms`. Of an AVAILABLE one it is the member that held it
    last, if it lost it without an answer.

    `batch_first`..`batch_last` is the fetch batch the record belongs to, for throttling: the range that one fetch took
    from the log, or one batch of the loaded state. Terminal records are in none (-1, -1), so that they fuse.
    """

    state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None
    batch_first: int = -1
    batch_last: int = -1
