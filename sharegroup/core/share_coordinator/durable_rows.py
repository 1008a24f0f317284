"""Build rows of the tables `share_group_state` and `delivery_log`. Times in rows are microseconds since the epoch.

The table writer adds the other columns of the tables.
"""

from collections.abc import Iterable
from typing import Any

from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord, tombstone_record
from sharegroup.types import UNCHANGED, Cause, RecordState, SharePartitionKey, StateBatch, Transition

_RECORD_TYPES = {
    RecordKind.SNAPSHOT: "ShareSnapshot",
    RecordKind.UPDATE: "ShareUpdate",
    RecordKind.TOMBSTONE: "Tombstone",
}


def state_row(record: ShareGroupStateRecord, end_offset: int) -> dict[str, Any]:
    """Return the `share_group_state` row of a record, without the columns of its key.

    `end_offset` is the end of the share-partition's in-flight window, exclusive, or -1 for a tombstone.
    """
    return {
        "record_type": _RECORD_TYPES[record.kind],
        "snapshot_epoch": record.snapshot_epoch,
        "state_epoch": record.state_epoch,
        "start_offset": record.start_offset,
        "end_offset": end_offset,
        "delivery_complete_count": record.delivery_complete_count,
        "state_batches": state_batch_rows(record.state_batches),
    }


def state_batch_rows(batches: Iterable[StateBatch]) -> list[dict[str, Any]]:
    """Return state batches as values of the column `state_batches`."""
    return [
        {
            "first_offset": batch.first_offset,
            "last_offset": batch.last_offset,
            "delivery_state": int(batch.delivery_state),
            "delivery_count": batch.delivery_count,
            "member_id": batch.member_id,
            "lock_deadline": None if batch.lock_deadline_ms is None else batch.lock_deadline_ms * 1000,
        }
        for batch in batches
    ]


def tombstone_row(key: SharePartitionKey) -> dict[str, Any]:
    """Return the `share_group_state` row that deletes the state of a share-partition."""
    return {**key._asdict(), **state_row(tombstone_record(key), UNCHANGED)}


def delivery_log_rows(key: SharePartitionKey, transitions: Iterable[Transition]) -> list[dict[str, Any]]:
    """Return the `delivery_log` rows of transitions of the share-partition `key`.

    Reserving a record for a gateway and ending the reservation are not deliveries, so they have no rows. The assignment
    of a record to a member is logged like a fetch of an AVAILABLE record.
    """
    return [
        delivery_log_row(key, _as_fetch(transition) if transition.cause is Cause.ASSIGN else transition)
        for transition in transitions
        if transition.cause not in (Cause.RESERVE, Cause.UNRESERVE)
    ]


def _as_fetch(assignment: Transition) -> Transition:
    return assignment._replace(from_state=RecordState.AVAILABLE, cause=Cause.FETCH)


def delivery_log_row(key: SharePartitionKey, transition: Transition) -> dict[str, Any]:
    """Return the `delivery_log` row of a transition."""
    deadline_ms = transition.lock_deadline_ms
    return {
        **key._asdict(),
        "first_offset": transition.first_offset,
        "last_offset": transition.last_offset,
        "from_state": transition.from_state.name,
        "to_state": transition.to_state.name,
        "cause": transition.cause.value,
        "member_id": transition.member_id,
        "delivery_count": transition.delivery_count,
        "lock_deadline": None if deadline_ms is None else deadline_ms * 1000,
    }
