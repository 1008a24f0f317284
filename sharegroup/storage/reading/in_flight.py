"""Reads the record ranges that are in flight, without Spark: the same rows as the Spark view `in_flight`."""

from collections.abc import Collection
from typing import NamedTuple

from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.types import RecordState, is_reserved

#: The state name that is shown for offsets reserved for a gateway: ranges in state ACQUIRED with delivery count 0.
RESERVED = "RESERVED"


class InFlightRange(NamedTuple):
    """A range of records of a share-partition in one state.

    `member_id` and `lock_deadline_ms` are None unless the state is ACQUIRED.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
    member_id: str | None
    lock_deadline_ms: int | None

    @property
    def state_name(self) -> str:
        """The state's name as in the view `in_flight`: RESERVED for reserved offsets, otherwise the name of `state`."""
        return RESERVED if is_reserved(self.state, self.delivery_count) else self.state.name


def read_in_flight(
    tables: str | DeltaTables, group_ids: Collection[str] | None = None, storage_options: StorageOptions = None
) -> tuple[InFlightRange, ...]:
    """Return the ranges in flight of some groups, or of all, ordered by group, topic, partition and offset.

    Raises TableUnavailableError.
    """
    states = read_current_states(DeltaTables.from_path(tables, storage_options), group_ids)
    return tuple(InFlightRange._make((*key, *batch)) for key in sorted(states) for batch in states[key].state_batches)
