"""What a member holds, against a plain dict of offsets; and that the work follows the ranges, not the records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.acknowledge_rules import check_batches
from sharegroup.gateway.holdings import Holdings
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

NOW, MARGIN, LOCK = 1_000_000, 5_000, 30_000


def ack(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, types or (AcknowledgeType.ACCEPT,))


def holding(*ranges: tuple[int, int]) -> Holdings:
    holdings = Holdings()
    holdings.handed_out([AcquiredRange(first, last, 1) for first, last in ranges], NOW + LOCK, NOW)
    return holdings


def test_only_what_was_handed_out_is_covered() -> None:
    holdings = holding((10, 19), (30, 39))
    assert holdings.covers([ack(10, 19), ack(30, 35), ack(36, 36)], NOW, MARGIN)
    for outside in (ack(9, 9), ack(9, 12), ack(19, 20), ack(15, 32), ack(0, 99), ack(20, 29)):
        assert not holdings.covers([outside], NOW, MARGIN), outside
    assert not holdings.covers([ack(10, 12), ack(40, 40)], NOW, MARGIN)


def test_an_acknowledgement_counts_once() -> None:
    holdings = holding((10, 19))
    holdings.acknowledged([ack(12, 14)])
    assert not holdings.covers([ack(14, 14)], NOW, MARGIN)
    assert holdings.covers([ack(10, 11), ack(15, 19)], NOW, MARGIN)
    assert not holdings.covers([ack(15, 16), ack(16, 17)], NOW, MARGIN)  # twice within the request


def test_the_lock_must_outlast_the_margin() -> None:
    holdings = holding((10, 19))
    assert holdings.covers([ack(10, 19)], NOW + LOCK - MARGIN - 1, MARGIN)
    assert not holdings.covers([ack(10, 19)], NOW + LOCK - MARGIN, MARGIN)


def test_handing_out_again_starts_a_new_lock() -> None:
    holdings = holding((10, 19))
    holdings.handed_out([AcquiredRange(10, 14, 2)], NOW + 2 * LOCK, NOW)
    assert holdings.covers([ack(10, 14)], NOW + LOCK, MARGIN)
    assert not holdings.covers([ack(10, 15)], NOW + LOCK, MARGIN)
    assert [(first, last, held.delivery_count) for first, last, held in holdings] == [(10, 14, 2), (15, 19, 1)]


def test_a_renewal_moves_the_deadline_and_keeps_the_count() -> None:
    holdings = holding((10, 19))
    renew, release = AcknowledgeType.RENEW, AcknowledgeType.RELEASE
    holdings.acknowledged([ack(10, 13, renew, release, renew, renew), ack(19, 19, renew)], NOW + 2 * LOCK)
    assert list(holdings) == [
        (10, 10, (NOW + 2 * LOCK, 1)),
        (12, 13, (NOW + 2 * LOCK, 1)),
        (14, 18, (NOW + LOCK, 1)),
        (19, 19, (NOW + 2 * LOCK, 1)),
    ]


def test_one_does_not_renew_what_one_does_not_hold() -> None:
    holdings = holding((10, 12))
    holdings.acknowledged([ack(5, 20, AcknowledgeType.RENEW)], NOW + 2 * LOCK)
    assert list(holdings) == [(10, 12, (NOW + 2 * LOCK, 1))]


def test_a_member_that_never_acknowledges_does_not_fill_the_memory() -> None:
    holdings = Holdings()
    for i in range(10_000):
        now_ms = NOW + 1_000 * i
        holdings.handed_out([AcquiredRange(10 * i, 10 * i + 9, 1)], now_ms + LOCK, now_ms)
        assert len(holdings) <= 64
    assert holdings.covers([ack(10 * 9_990, 10 * 10_000 - 1)], now_ms, MARGIN)


def test_ranges_cost_not_records() -> None:
    holdings = holding((0, 10**12))
    assert holdings.covers([ack(0, 10**12)], NOW, MARGIN)
    singles = [ack(offset, offset) for offset in range(0, 1000, 2)]
    assert holdings.covers(singles, NOW, MARGIN)
    holdings.acknowledged(singles)
    assert len(holdings) == 500
    holdings.acknowledged([ack(1, 10**12 - 1)])
    assert list(holdings) == [(10**12, 10**12, (NOW + LOCK, 1))]


OFFSETS = 24
offset_ranges = st.tuples(st.integers(0, OFFSETS - 1), st.integers(0, OFFSETS - 1)).map(sorted).map(tuple)
grants = st.tuples(st.just("grant"), offset_ranges, st.integers(0, 5 * MARGIN), st.integers(1, 5))


@st.composite
def acknowledgements(draw: st.DrawFn) -> tuple[object, ...]:
    """Batches that pass the rules: ascending, one type or one for each offset."""
    bounds = sorted(draw(st.lists(st.integers(0, OFFSETS - 1), min_size=2, max_size=8)))
    batches = []
    for first, last in zip(bounds[::2], bounds[1::2], strict=False):
        size = draw(st.sampled_from([1, last - first + 1]))
        batches.append(ack(first, last, *draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))))
    check_batches(batches, is_renew_ack=True)
    return "acknowledge", batches, draw(st.integers(0, 5 * MARGIN))


@given(st.lists(st.one_of(grants, acknowledgements()), max_size=20), st.integers(0, 4 * MARGIN))
def test_against_a_dict_of_offsets(steps: list[tuple[object, ...]], later: int) -> None:
    holdings, model = Holdings(), dict[int, tuple[int, int]]()
    for kind, *values in steps:
        if kind == "grant":
            (first, last), deadline, count = values  # type: ignore[misc]
            holdings.handed_out([AcquiredRange(first, last, count)], deadline, 0)
            model.update(dict.fromkeys(range(first, last + 1), (deadline, count)))
            continue
        batches, renewed = values
        named = [
            (offset, batch.acknowledge_types[0 if len(batch.acknowledge_types) == 1 else i])
            for batch in batches  # type: ignore[attr-defined]
            for i, offset in enumerate(range(batch.first_offset, batch.last_offset + 1))
        ]
        offsets = [offset for offset, _ in named]
        in_time = all(offset in model and model[offset][0] > later + MARGIN for offset in offsets)
        expected = in_time and len(set(offsets)) == len(offsets)
        assert holdings.covers(batches, later, MARGIN) == expected  # type: ignore[arg-type]
        if len(set(offsets)) < len(offsets):
            continue  # such a request is refused
        holdings.acknowledged(batches, renewed)  # type: ignore[arg-type]
        for offset, acknowledge_type in named:
            if acknowledge_type != AcknowledgeType.RENEW:
                model.pop(offset, None)
            elif offset in model:
                model[offset] = (renewed, model[offset][1])  # type: ignore[assignment]
    held = {offset: tuple(how) for first, last, how in holdings for offset in range(first, last + 1)}
    assert held == model
