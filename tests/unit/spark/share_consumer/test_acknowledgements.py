"""A handler's result as acknowledgement batches."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acknowledgements import (
    InvalidResultError,
    Run,
    acknowledge_all,
    acknowledge_with_exceptions,
    exception_runs,
    mark_gaps,
)
from sharegroup.types import AcknowledgementBatch, AcknowledgeType

P0, P1 = AssignedPartition("t", "id", 0), AssignedPartition("t", "id", 1)
A, R, X = (int(t) for t in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT))
G = int(AcknowledgeType.GAP)


def held(first: int, last: int, partition: int = 0) -> HeldRange:
    return HeldRange("t", "id", partition, first, last, 1, 30_000)


def result(rows: Sequence[tuple[str, int, int, object]], type_: pa.DataType | None = None) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    return pa.table(
        {
            "topic": pa.array(columns[0], pa.string()),
            "partition": pa.array(columns[1], pa.int64()),
            "offset": pa.array(columns[2], pa.int64()),
            "acknowledge_type": pa.array(columns[3], type_ or pa.string()),
        }
    )


def runs_of(table: pa.Table) -> dict[AssignedPartition, list[Run]]:
    return exception_runs(table, [held(0, 0)])


def test_no_result_accepts_each_range_in_a_batch_of_its_own() -> None:
    assert acknowledge_all([held(10, 19), held(0, 9), held(5, 5, 1)], AcknowledgeType.ACCEPT) == {
        P0: [AcknowledgementBatch(0, 9, (A,)), AcknowledgementBatch(10, 19, (A,))],
        P1: [AcknowledgementBatch(5, 5, (A,))],
    }


@pytest.mark.parametrize(
    ("present", "parts"),
    [
        (range(10), [(0, 9, A)]),
        ([], [(0, 9, G)]),
        ([0, 1, 2, 5, 9], [(0, 2, A), (3, 4, G), (5, 5, A), (6, 8, G), (9, 9, A)]),
        ([3, 4, 12], [(0, 2, G), (3, 4, A), (5, 9, G)]),
    ],
)
def test_offsets_without_a_record_are_gaps(present: Sequence[int], parts: list[tuple[int, int, int]]) -> None:
    accepted = {P0: [AcknowledgementBatch(0, 9, (A,))], P1: [AcknowledgementBatch(0, 9, (R,))]}
    gaps = mark_gaps(accepted, {P0: np.array(present, dtype=np.int64), P1: np.array([], dtype=np.int64)})
    assert gaps[P0] == [AcknowledgementBatch(first, last, (kind,)) for first, last, kind in parts]
    assert gaps[P1] == accepted[P1], "what is released comes again, and is a gap then"


def test_exceptions_are_joined_to_runs_and_the_rest_is_accepted() -> None:
    rows = [("t", 0, 4, "release"), ("t", 0, 3, "RELEASE"), ("t", 0, 9, "Reject"), ("t", 0, 5, "accept")]
    assert acknowledge_with_exceptions([held(0, 9)], runs_of(result(rows))) == {
        P0: [
            AcknowledgementBatch(0, 2, (A,)),
            AcknowledgementBatch(3, 4, (R,)),
            AcknowledgementBatch(5, 5, (A,)),
            AcknowledgementBatch(6, 8, (A,)),
            AcknowledgementBatch(9, 9, (X,)),
        ]
    }


def test_types_may_be_numbers() -> None:
    rows = [("t", 0, 1, 2), ("t", 1, 1, 3)]
    assert runs_of(result(rows, pa.int32())) == {P0: [Run(1, 1, R)], P1: [Run(1, 1, X)]}


def test_an_empty_result_accepts_all() -> None:
    assert acknowledge_with_exceptions([held(0, 1)], runs_of(result([]))) == {P0: [AcknowledgementBatch(0, 1, (A,))]}


@pytest.mark.parametrize(
    ("rows", "type_", "problem"),
    [
        ([("t", 0, 1, "renew")], None, "'renew' is none of accept"),
        ([("t", 0, 1, 4)], pa.int64(), "4 is none of"),
        ([("t", 0, 1, 0)], pa.int8(), "0 is none of"),
        ([("t", 0, 1, None)], None, "acknowledge_type has nulls"),
        ([(None, 0, 1, "accept")], None, "topic has nulls"),
        ([("t", 0, 1, "accept"), ("t", 0, 1, "reject")], None, "two acknowledge types"),
    ],
)
def test_an_invalid_result_is_reported(
    rows: list[tuple[str, int, int, object]], type_: pa.DataType, problem: str
) -> None:
    with pytest.raises(InvalidResultError, match=problem):
        runs_of(result(rows, type_))


@pytest.mark.parametrize("offset", [4, 10, 15, 30])
def test_an_offset_outside_of_the_batch_is_reported(offset: int) -> None:
    runs = runs_of(result([("t", 0, offset, "reject"), ("t", 0, 7, "reject")]))
    with pytest.raises(InvalidResultError, match=f"offset {offset} "):
        acknowledge_with_exceptions([held(5, 9), held(20, 29)], runs)


def test_another_partition_is_outside_of_the_batch() -> None:
    with pytest.raises(InvalidResultError, match="is not in the batch"):
        acknowledge_with_exceptions([held(0, 9)], runs_of(result([("t", 1, 0, "reject")])))


def test_another_topic_is_outside_of_the_batch() -> None:
    with pytest.raises(InvalidResultError, match="is not in the batch"):
        acknowledge_with_exceptions([held(0, 9)], runs_of(result([("u", 0, 0, "reject")])))


def test_a_repeated_row_counts_once() -> None:
    assert runs_of(result([("t", 0, 1, "reject"), ("t", 0, 1, "reject")])) == {P0: [Run(1, 1, X)]}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 50), st.sampled_from([A, R, X])),
)
def test_every_offset_gets_its_type(pieces: list[tuple[int, int]], said: dict[int, int]) -> None:
    ranges: list[HeldRange] = []
    next_offset = 0
    for gap, size in pieces:
        ranges.append(held(next_offset + gap, next_offset + gap + size - 1))
        next_offset = ranges[-1].last_offset + 1
    inside = {offset for r in ranges for offset in range(r.first_offset, r.last_offset + 1)}
    rows = [("t", 0, offset, number) for offset, number in said.items() if offset in inside]
    batches = acknowledge_with_exceptions(ranges, runs_of(result(rows, pa.int64())))[P0]
    acknowledged = {
        offset: batch.acknowledge_types[0]
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert acknowledged == {offset: said.get(offset, A) for offset in inside}
    assert all(before.last_offset < after.first_offset for before, after in pairwise(batches))
