"""Converts a handler's result to acknowledgement batches.

The handler's result has a row for each record that it does not accept. All other records are accepted. Offsets without
a record are acknowledged as gaps. The rows are sorted and joined into runs (consecutive offsets of one type) with
numpy, so that the cost of each record stays small. This module does not use Spark: `records.result_table` converts the
DataFrame to an Arrow table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.errors import ShareGroupError
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.types import AcknowledgementBatch, AcknowledgeType

COLUMNS = ("topic", "partition", "offset", "acknowledge_type")
#: The acknowledge types of a handler's result, by name and by number.
TYPES = {t.name.lower(): int(t) for t in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)}

Acknowledgements = dict[AssignedPartition, list[AcknowledgementBatch]]
#: The offsets that hold a record, in ascending order, by share-partition.
PresentOffsets = Mapping[AssignedPartition, np.ndarray]
_ACCEPT = (int(AcknowledgeType.ACCEPT),)


class InvalidResultError(ShareGroupError):
    """The handler's result is invalid; the batch is released, as after any exception of the handler."""


class Run(NamedTuple):
    """Offsets first_offset..last_offset with one acknowledge type."""

    first_offset: int
    last_offset: int
    acknowledge_type: int


def acknowledge_all(ranges: Sequence[HeldRange], acknowledge_type: AcknowledgeType) -> Acknowledgements:
    """Return one acknowledgement batch for each range, all with the same type.

    If the member has lost a range, the job therefore rejects only the acknowledgement batch of this range.
    """
    return acknowledge_with_exceptions(ranges, {}, acknowledge_type)


def acknowledge_with_exceptions(
    ranges: Sequence[HeldRange],
    exceptions: dict[AssignedPartition, list[Run]],
    otherwise: AcknowledgeType = AcknowledgeType.ACCEPT,
) -> Acknowledgements:
    """Return acknowledgement batches for all offsets of the ranges.

    An offset in `exceptions` gets the type that is given there. All other offsets get the type `otherwise`. Raises
    InvalidResultError if `exceptions` contains an offset outside the ranges.
    """
    found: Acknowledgements = {}
    left = {share_partition: list(reversed(runs)) for share_partition, runs in exceptions.items()}
    for held in sorted(ranges):
        runs = left.get(held.share_partition, [])
        if runs and runs[-1].first_offset < held.first_offset:
            break
        batches = found.setdefault(held.share_partition, [])
        for first, last, acknowledge_type in _covering(held, runs, int(otherwise)):
            batches.append(AcknowledgementBatch(first, last, (acknowledge_type,)))
    for share_partition, runs in left.items():
        if runs:
            raise InvalidResultError(f"offset {runs[-1].first_offset} of {share_partition} is not in the batch")
    return found


def mark_gaps(acknowledgements: Acknowledgements, present: PresentOffsets) -> Acknowledgements:
    """Return the acknowledgements, with the type GAP instead of ACCEPT for offsets that are not in `present`."""
    return {
        share_partition: [part for batch in batches for part in _without_gaps(batch, present[share_partition])]
        for share_partition, batches in acknowledgements.items()
    }


def exception_runs(result: pa.Table, ranges: Sequence[HeldRange]) -> dict[AssignedPartition, list[Run]]:
    """Convert a handler's result to the argument `exceptions` of `acknowledge_with_exceptions`.

    The runs of each share-partition are in ascending order.

    `result` has the columns COLUMNS. `acknowledge_type` is text (accept, release, reject in any case) or a number
    (1, 2, 3). Raises InvalidResultError if `result` has a null or an unknown type, or two types for one offset.
    """
    _check_complete(result)
    numbers = _numbers(result.column("acknowledge_type"))
    topic_ids = {held.topic: held.topic_id for held in ranges}
    runs: dict[AssignedPartition, list[Run]] = {}
    for topic in pc.unique(result.column("topic")).to_pylist():
        chosen = pc.equal(result.column("topic"), topic)
        partitions, offsets, types = (
            column.filter(chosen).to_numpy()
            for column in (result.column("partition"), result.column("offset"), numbers)
        )
        for partition in np.unique(partitions):
            here = partitions == partition
            share_partition = AssignedPartition(topic, topic_ids.get(topic, ""), int(partition))
            runs[share_partition] = list(_runs(share_partition, offsets[here], types[here]))
    return runs


def _covering(held: HeldRange, runs: list[Run], otherwise: int) -> Iterator[Run]:
    """Yield runs that cover the range: the parts of `runs` in it, and runs of type `otherwise` for all other offsets.

    `runs` is in descending order. Runs that were yielded are removed from its end. If a run continues after the range,
    its rest stays in `runs`.
    """
    next_offset = held.first_offset
    while runs and runs[-1].first_offset <= held.last_offset:
        run = runs.pop()
        if run.last_offset > held.last_offset:  # continues in the next range
            runs.append(run._replace(first_offset=held.last_offset + 1))
            run = run._replace(last_offset=held.last_offset)
        if next_offset < run.first_offset:
            yield Run(next_offset, run.first_offset - 1, otherwise)
        yield run
        next_offset = run.last_offset + 1
    if next_offset <= held.last_offset:
        yield Run(next_offset, held.last_offset, otherwise)


def _without_gaps(batch: AcknowledgementBatch, present: np.ndarray) -> Iterator[AcknowledgementBatch]:
    """Split a batch of type ACCEPT into ACCEPT batches for the offsets in `present`, and GAP batches for the others.

    A batch with any other type is yielded unchanged.
    """
    first, last, types = batch
    offsets = present[np.searchsorted(present, first) : np.searchsorted(present, last, side="right")]
    if types != _ACCEPT or len(offsets) == last - first + 1:
        yield batch
        return
    gap = (int(AcknowledgeType.GAP),)
    for run in np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1) if len(offsets) else ():
        if first < run[0]:
            yield AcknowledgementBatch(first, int(run[0]) - 1, gap)
        yield AcknowledgementBatch(int(run[0]), int(run[-1]), types)
        first = int(run[-1]) + 1
    if first <= last:
        yield AcknowledgementBatch(first, last, gap)


def _check_complete(result: pa.Table) -> None:
    for name in COLUMNS:
        if result.column(name).null_count:
            raise InvalidResultError(f"in the handler's result, column {name} has nulls")


def _numbers(acknowledge_type: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_integer(acknowledge_type.type):
        numbers = acknowledge_type.cast(pa.int64())
    else:
        names = pc.utf8_lower(acknowledge_type)
        known = pa.array(list(TYPES))
        numbers = pc.add(pc.index_in(names, value_set=known), 1)  # TYPES is in the order of its numbers, from 1
    is_known = pc.is_in(numbers, value_set=pa.array(list(TYPES.values()), numbers.type))
    wrong = acknowledge_type.filter(pc.invert(is_known))
    if len(wrong):
        allowed = ", ".join(f"{name} ({number})" for name, number in TYPES.items())
        raise InvalidResultError(f"in the handler's result, acknowledge_type {wrong[0].as_py()!r} is none of {allowed}")
    return numbers


def _runs(share_partition: AssignedPartition, offsets: np.ndarray, types: np.ndarray) -> Iterator[Run]:
    """Yield runs of consecutive offsets with one type, in ascending order.

    An offset may occur repeatedly with the same type. Raises InvalidResultError if an offset has two types.
    """
    order = np.lexsort((types, offsets))
    offsets, types = offsets[order], types[order]
    twice = offsets[1:] == offsets[:-1]
    if np.any(twice & (types[1:] != types[:-1])):
        offset = int(offsets[1:][twice & (types[1:] != types[:-1])][0])
        raise InvalidResultError(f"offset {offset} of {share_partition} has two acknowledge types in the result")
    breaks = np.flatnonzero((offsets[1:] - offsets[:-1] > 1) | (types[1:] != types[:-1])) + 1
    firsts = np.concatenate(([0], breaks))
    lasts = np.concatenate((breaks, [len(offsets)])) - 1
    for first, last in zip(firsts, lasts, strict=True):
        yield Run(int(offsets[first]), int(offsets[last]), int(types[first]))
