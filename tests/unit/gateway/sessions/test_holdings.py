"""The ranges that a member holds, compared with a plain dict of offsets; costs depend on ranges, not records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.sessions.holdings import AcknowledgedRanges, Delivery, Holdings
from sharegroup.gateway.sessions.read_ahead_buffer import LockedRange
from sharegroup.protocol.acknowledge_rules import check_batches
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

NOW, LOCK = 1_000_000, 30_000
END = NOW + LOCK


def ack(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, types or (AcknowledgeType.ACCEPT,))


def holding(*ranges: tuple[int, int], count: int = 1) -> Holdings:
    holdings = Holdings()
    holdings.add([LockedRange(first, last, count, END) for first, last in ranges], NOW)
    return holdings


def accept(holdings: Holdings, *batches: AcknowledgementBatch, renewed_ms: int | None = None) -> None:
    holdings.record_request(batches, "request")
    holdings.apply_accepted(batches, "request", renewed_ms)


def test_only_delivered_ranges_are_held() -> None:
    holdings = holding((10, 19), (30, 39))
    grants = [AcquiredRange(10, 19, 1), AcquiredRange(30, 36, 1)]
    assert holdings.find_acknowledged([ack(10, 19), ack(30, 35), ack(36, 36)], NOW) == AcknowledgedRanges(
        grants, END, True
    )
    for outside in (ack(9, 9), ack(9, 12), ack(19, 20), ack(15, 32), ack(0, 99), ack(20, 29)):
        assert holdings.find_acknowledged([outside], NOW) is None, outside
    assert holdings.find_acknowledged([ack(10, 12), ack(40, 40)], NOW) is None


def test_held_ranges_have_their_delivery_counts() -> None:
    holdings = holding((10, 19))
    holdings.add([LockedRange(13, 15, 2, END + 5), LockedRange(16, 16, 2, END + 6)], NOW)
    assert holdings.find_acknowledged([ack(12, 14), ack(15, 18)], NOW) == AcknowledgedRanges(
        [AcquiredRange(12, 12, 1), AcquiredRange(13, 16, 2), AcquiredRange(17, 18, 1)], END, True
    )
    assert holdings.find_acknowledged([ack(14, 15)], NOW) == AcknowledgedRanges(
        [AcquiredRange(14, 15, 2)], END + 5, True
    )


def test_an_acknowledgement_counts_once() -> None:
    holdings = holding((10, 19))
    accept(holdings, ack(12, 14))
    assert holdings.find_acknowledged([ack(14, 14)], NOW) is None
    assert holdings.find_acknowledged([ack(10, 11), ack(15, 19)], NOW) is not None


def test_offset_named_twice_is_left_to_the_job() -> None:
    holdings = holding((10, 19))
    assert holdings.find_acknowledged([ack(15, 16), ack(16, 17)], NOW) == AcknowledgedRanges(
        [AcquiredRange(15, 17, 1)], END, False
    )
    assert holdings.find_acknowledged([ack(16, 16), ack(16, 16)], NOW) == AcknowledgedRanges(
        [AcquiredRange(16, 16, 1)], END, False
    )


def test_offsets_stay_open_until_their_own_response() -> None:
    holdings = holding((10, 19))
    holdings.record_request([ack(12, 14)], "a")
    assert holdings.find_acknowledged([ack(10, 12)], NOW) == AcknowledgedRanges([AcquiredRange(10, 12, 1)], END, False)
    holdings.record_request([ack(13, 15)], "b")
    holdings.apply_accepted([ack(12, 14)], "a")
    assert list(holdings) == [
        (10, 11, Delivery(END, 1)),
        (13, 15, Delivery(END, 1, "b")),
        (16, 19, Delivery(END, 1)),
    ]


def test_redelivered_range_is_not_settled_by_an_older_request() -> None:
    holdings = holding((10, 19))
    holdings.record_request([ack(10, 19)], "late")
    holdings.add([LockedRange(10, 14, 2, END + LOCK)], NOW)
    holdings.apply_accepted([ack(10, 19)], "late")
    assert list(holdings) == [(10, 14, Delivery(END + LOCK, 2))]


def test_range_with_expired_lock_is_not_held() -> None:
    holdings = holding((10, 19))
    assert holdings.find_acknowledged([ack(10, 19)], END) is not None
    assert holdings.find_acknowledged([ack(10, 19)], END + 1) is None


def test_redelivery_starts_a_new_lock() -> None:
    holdings = holding((10, 19))
    holdings.add([LockedRange(10, 14, 2, END + LOCK)], NOW)
    assert holdings.find_acknowledged([ack(10, 14)], END + 1) == AcknowledgedRanges(
        [AcquiredRange(10, 14, 2)], END + LOCK, True
    )
    assert holdings.find_acknowledged([ack(10, 15)], END + 1) is None


def test_a_renewal_moves_the_deadline_and_keeps_the_count() -> None:
    holdings = holding((10, 19), count=3)
    renew, release = AcknowledgeType.RENEW, AcknowledgeType.RELEASE
    accept(holdings, ack(10, 13, renew, release, renew, renew), ack(19, 19, renew), renewed_ms=END + LOCK)
    assert list(holdings) == [
        (10, 10, Delivery(END + LOCK, 3)),
        (12, 13, Delivery(END + LOCK, 3)),
        (14, 18, Delivery(END, 3)),
        (19, 19, Delivery(END + LOCK, 3)),
    ]


def test_a_member_that_never_acknowledges_does_not_fill_the_memory() -> None:
    holdings = Holdings()
    for i in range(10_000):
        now_ms = NOW + 1_000 * i
        holdings.add([LockedRange(10 * i, 10 * i + 9, 1, now_ms + LOCK)], now_ms)
        assert len(holdings) <= 64
    assert holdings.find_acknowledged([ack(10 * 9_990, 10 * 10_000 - 1)], now_ms) is not None


def test_cost_depends_on_ranges_not_records() -> None:
    holdings = holding((0, 10**12))
    assert holdings.find_acknowledged([ack(0, 10**12)], NOW) is not None
    singles = [ack(offset, offset) for offset in range(0, 1000, 2)]
    held = holdings.find_acknowledged(singles, NOW)
    assert held is not None
    assert len(held.ranges) == 500
    accept(holdings, *singles)
    assert len(holdings) == 500
    accept(holdings, ack(1, 10**12 - 1))
    assert list(holdings) == [(10**12, 10**12, Delivery(END, 1))]


OFFSETS = 24
LATEST = 20_000
offset_ranges = st.tuples(st.integers(0, OFFSETS - 1), st.integers(0, OFFSETS - 1)).map(sorted).map(tuple)
grants = st.tuples(st.just("grant"), offset_ranges, st.integers(0, LATEST), st.integers(1, 5))


@st.composite
def acknowledgements(draw: st.DrawFn) -> tuple[object, ...]:
    """Generate batches that pass the rules: ascending, one type or one for each offset."""
    bounds = sorted(draw(st.lists(st.integers(0, OFFSETS - 1), min_size=2, max_size=8)))
    batches = []
    for first, last in zip(bounds[::2], bounds[1::2], strict=False):
        size = draw(st.sampled_from([1, last - first + 1]))
        batches.append(ack(first, last, *draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))))
    check_batches(batches, is_renew_ack=True)
    return "acknowledge", batches, draw(st.integers(0, LATEST))


@given(st.lists(st.one_of(grants, acknowledgements()), max_size=20), st.integers(0, LATEST))
def test_against_a_dict_of_offsets(steps: list[tuple[object, ...]], later: int) -> None:
    holdings, model = Holdings(), dict[int, tuple[int, int]]()
    for kind, *values in steps:
        if kind == "grant":
            (first, last), deadline, count = values  # type: ignore[misc]
            holdings.add([LockedRange(first, last, count, deadline)], 0)
            model.update(dict.fromkeys(range(first, last + 1), (deadline, count)))
            continue
        batches, renewed = values
        named = [
            (offset, batch.acknowledge_types[0 if len(batch.acknowledge_types) == 1 else i])
            for batch in batches  # type: ignore[attr-defined]
            for i, offset in enumerate(range(batch.first_offset, batch.last_offset + 1))
        ]
        offsets = [offset for offset, _ in named]
        held = holdings.find_acknowledged(batches, later)  # type: ignore[arg-type]
        assert (held is not None) == all(offset in model and model[offset][0] >= later for offset in offsets)
        if held is not None:
            granted = [(offset, count) for first, last, count in held.ranges for offset in range(first, last + 1)]
            assert granted == [(offset, model[offset][1]) for offset in sorted(set(offsets))]
            assert held.deadline_ms == min(model[offset][0] for offset in offsets)
            assert held.is_settled == (len(set(offsets)) == len(offsets))
        if len(set(offsets)) < len(offsets):
            continue  # such a request is rejected
        accept(holdings, *batches, renewed_ms=renewed)  # type: ignore[misc, arg-type]
        for offset, acknowledge_type in named:
            if acknowledge_type != AcknowledgeType.RENEW:
                model.pop(offset, None)
            elif offset in model:
                model[offset] = (renewed, model[offset][1])  # type: ignore[assignment]
    rest = {offset: (how[0], how[1]) for first, last, how in holdings for offset in range(first, last + 1)}
    assert rest == model


def test_acknowledgement_past_all_delivered_offsets_is_detected() -> None:
    assert not Holdings().is_past_delivered([ack(0, 9)])
    holdings = holding((10, 19), (30, 39))
    assert holdings.is_past_delivered([ack(10, 12), ack(35, 40)])
    assert not holdings.is_past_delivered([ack(20, 29)])
    accept(holdings, ack(30, 39))
    assert not holdings.is_past_delivered([ack(30, 39)])
    holdings.clear()
    assert not holdings.is_past_delivered([ack(90, 99)])
