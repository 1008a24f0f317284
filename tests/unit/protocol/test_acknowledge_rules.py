"""Each rule of acknowledgement batches."""

from __future__ import annotations

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.acknowledge_rules import check_batches, check_renewing_fetch, has_renewals, split_released
from sharegroup.types import AcknowledgementBatch

Batches = list[tuple[int, int, tuple[int, ...]]]


def as_batches(batches: Batches) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(*batch) for batch in batches]


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [(0, 0, (0,))],
        [(5, 9, (1,)), (10, 11, (2, 3))],
        [(5, 9, (1,)), (9, 9, (1,))],  # rejected later, by the record's state
        [(0, 2**63 - 1, (1,))],
    ],
)
def test_valid_batches_are_accepted(batches: Batches) -> None:
    check_batches(as_batches(batches), is_renew_ack=False)


@pytest.mark.parametrize(
    "batches",
    [
        [(6, 5, (1,))],
        [(5, 9, (1,)), (8, 12, (1,))],
        [(5, 9, (1,)), (0, 1, (1,))],
        [(-5, 1, (1,))],
        [(5, 9, ())],
        [(5, 9, (1, 1))],
        [(5, 5, (1, 1))],
        [(5, 5, (-1,))],
        [(5, 6, (1, 5))],
        [(5, 5, (4,))],
        [(5, 5, (1,)), (6, 7, (1, 4))],
    ],
)
def test_invalid_batches_are_rejected(batches: Batches) -> None:
    with pytest.raises(RequestError) as error:
        check_batches(as_batches(batches), is_renew_ack=False)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_renew_requires_is_renew_ack() -> None:
    batches = as_batches([(5, 7, (1, 4, 2))])
    assert has_renewals(batches)
    check_batches(batches, is_renew_ack=True)
    assert not has_renewals(as_batches([(5, 7, (1,))]))


def test_a_fetch_with_is_renew_ack_must_not_request_records() -> None:
    check_renewing_fetch(True, 0, 0, 0, 0)
    check_renewing_fetch(False, 500, 1, 2**31 - 1, 500)
    for wanted in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
        with pytest.raises(RequestError) as error:
            check_renewing_fetch(True, *wanted)
        assert error.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("batches", "released", "others"),
    [
        ([], [], []),
        ([(0, 9, (1,))], [], [(0, 9, (1,))]),
        ([(0, 9, (2,)), (10, 10, (3,))], [(0, 9)], [(10, 10, (3,))]),
        ([(0, 4, (1, 2, 2, 0, 3))], [(1, 2)], [(0, 0, (1,)), (3, 4, (0, 3))]),
    ],
)
def test_released_offsets_are_split_off(batches: Batches, released: list[tuple[int, int]], others: Batches) -> None:
    assert split_released(as_batches(batches)) == (released, others)
