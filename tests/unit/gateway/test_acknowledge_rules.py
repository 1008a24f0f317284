"""The rules of acknowledgement batches, one by one, and that the job has the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.sessions.acknowledge_rules import check_batches, check_renewing_fetch, has_renewals
from sharegroup.share_partition import acknowledgement
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
        [(5, 9, (1,)), (9, 9, (1,))],  # refused later, on the record's state
        [(0, 2**63 - 1, (1,))],
    ],
)
def test_allowed(batches: Batches) -> None:
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
def test_refused(batches: Batches) -> None:
    with pytest.raises(RequestError) as error:
        check_batches(as_batches(batches), is_renew_ack=False)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_renew_needs_the_flag_of_the_request() -> None:
    batches = as_batches([(5, 7, (1, 4, 2))])
    assert has_renewals(batches)
    check_batches(batches, is_renew_ack=True)
    assert not has_renewals(as_batches([(5, 7, (1,))]))


def test_a_fetch_that_renews_fetches_nothing() -> None:
    check_renewing_fetch(True, 0, 0, 0, 0)
    check_renewing_fetch(False, 500, 1, 2**31 - 1, 500)
    for wanted in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)):
        with pytest.raises(RequestError) as error:
            check_renewing_fetch(True, *wanted)
        assert error.value.code is ErrorCode.INVALID_REQUEST


@given(
    st.lists(
        st.tuples(st.integers(-2, 8), st.integers(-2, 8), st.lists(st.integers(-1, 5), max_size=4).map(tuple)),
        max_size=4,
    ),
    st.booleans(),
)
def test_the_job_refuses_the_same(batches: Batches, is_renew_ack: bool) -> None:
    def refusal(check: Callable[..., None]) -> ErrorCode | None:
        try:
            check(as_batches(batches), is_renew_ack)
        except RequestError as error:
            return error.code
        return None

    assert refusal(check_batches) == refusal(acknowledgement.check_batches)
