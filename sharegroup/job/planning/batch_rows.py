"""Makes the rows of a `kafka_log_offsets` batch from its start and end offset. Every run makes the same rows.

The end offset contains the rows, except for the states of the share-partitions to load. These are read from the table
at the offset's `state_version`. A batch of the offset log can therefore be run again on an executor, even days later.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from sharegroup.core.operators import rows
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.errors import ShareGroupError
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.knowledge.source_offset import SourceOffset, SourceRow
from sharegroup.types import SharePartitionKey

States = Mapping[SharePartitionKey, ShareGroupOffset]
#: Returns the states of share-partitions. The arguments are a version of `share_group_state`, and the share-partitions.
ReadStates = Callable[[int, Collection[SharePartitionKey]], States]


class OffsetsApartError(ShareGroupError):
    """The end offset of a batch does not directly follow its start offset, so the offsets between them are missing.

    An offset contains the rows of one batch only.
    """


def rows_between(start: SourceOffset, end: SourceOffset, read_states: ReadStates) -> Iterator[tuple[str, str]]:
    """Yield the (shard key, row) pairs of the batch from `start` to `end`.

    A batch moves the source's offset forward by at most one. `end` is therefore `start`, and the batch is empty, or it
    is the next offset. Raises OffsetsApartError for any other `end`.
    """
    if end == start:
        return
    if end.seq != start.seq + 1:
        raise OffsetsApartError(
            f"the offsets {start.seq} and {end.seq} of the source of the query share_partition do not follow each "
            "other: the checkpoint is incomplete. Remove its directory (share_partition below checkpoint.path), and "
            "the job recovers from the tables"
        )
    loaded = [key for row in end.rows if row.kind == rows.LOAD for key in _keys(row)]
    states = read_states(end.state_version, loaded) if loaded else {}
    for row in end.rows:
        body = [_load(key, load, states) for key, load in _loads(row)] if row.kind == rows.LOAD else row.body
        text = rows.encode_row(row.kind, json.dumps(body, separators=(",", ":"), sort_keys=True))
        for shard_key in row.shard_keys:
            yield shard_key, text


def is_current(state: ShareGroupOffset | None, state_epoch: int) -> bool:
    """Return whether the state exists and its epoch is not earlier than `state_epoch`."""
    return state is not None and state.header.state_epoch >= state_epoch


def _loads(row: SourceRow) -> Iterator[tuple[SharePartitionKey, dict[str, Any]]]:
    (shard_key,) = row.shard_keys
    group_id, topic_id, _ = ShardKey.decode(shard_key)
    for load in row.body:
        yield SharePartitionKey(group_id, load["topic"], topic_id, load["partition"]), load


def _keys(row: SourceRow) -> Iterator[SharePartitionKey]:
    return (key for key, _ in _loads(row))


def _load(key: SharePartitionKey, load: dict[str, Any], states: States) -> dict[str, Any]:
    """Return a copy of `load`, the row that loads a share-partition, with the header of its stored state.

    If the state epoch of the stored state is not earlier than that of `load`, the copy also has the start offset and
    the state batches of the stored state. Otherwise it has the start offset of `load`, and no state batches.
    """
    state = states.get(key)
    header = state.header.dump() if state is not None else None
    if state is not None and is_current(state, load["state_epoch"]):
        batches = [list(batch) for batch in state.state_batches]
        return load | {"header": header, "start_offset": state.header.start_offset, "batches": batches}
    assert load["start_offset"] is not None, key
    return load | {"header": header, "batches": []}
