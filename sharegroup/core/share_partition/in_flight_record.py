"""The state of a record in flight."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.types import RecordState, is_reserved


class InFlightRecord(NamedTuple):
    """The state that all records of a range share.

    Attributes:
        state: One of the four record states of KIP-932.
        delivery_count: The number of deliveries, including the current one.
        member_id: For an ACQUIRED record, the member that holds the record, or the id of the gateway that has reserved
            it (`reservation.reserver_id`). For an AVAILABLE record, the previous holder if the record became AVAILABLE
            because the lock expired, the holder left the group, or the holder's session ended. Otherwise None.
        lock_deadline_ms: The time at which the lock of an ACQUIRED record expires; `reservation.NO_DEADLINE_MS` for a
            reserved record. None in other states.
        batch_first: First offset of the record's fetch batch, which throttling uses (`acquisition`). The fetch batch is
            the range of new records that one fetch or one assignment delivered, or one batch of the loaded state.
            Reserved records have -1. Terminal records have -1 too, unless there are loaded holes. With -1, neighbouring
            ranges can be merged.
        batch_last: Last offset of the fetch batch, or -1 like `batch_first`.
    """

    state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None
    batch_first: int = -1
    batch_last: int = -1

    @property
    def is_reserved(self) -> bool:
        """Whether a gateway holds the record and has not assigned it to a member yet."""
        return is_reserved(self.state, self.delivery_count)
