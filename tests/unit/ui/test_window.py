"""The picture of a window has each record of the span once, at any zoom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.types import RecordState, StateBatch
from sharegroup.ui.data.window import (
    COLUMNS,
    Bar,
    Piece,
    RecordKind,
    Span,
    columns,
    member_bars,
    move_span,
    pieces,
    state_bars,
    zones,
    zoom_span,
)
from tests.unit.ui.seen import many_ranges

ACQUIRED = StateBatch(10, 14, RecordState.ACQUIRED, 1, "m-1", 99)
AGAIN = StateBatch(18, 19, RecordState.AVAILABLE, 2)


def test_pieces_cover_the_span() -> None:
    assert list(pieces([ACQUIRED, AGAIN], 8, Span(5, 22))) == [
        Piece(5, 7, RecordKind.FINISHED),
        Piece(8, 9, RecordKind.NEW),
        Piece(10, 14, RecordKind.ACQUIRED, 1, "m-1", 99),
        Piece(15, 17, RecordKind.NEW),
        Piece(18, 19, RecordKind.AGAIN, 2),
        Piece(20, 22, RecordKind.NEW),
    ]


def test_pieces_are_cut_at_the_ends_of_the_span() -> None:
    assert list(pieces([ACQUIRED, AGAIN], 10, Span(12, 13))) == [Piece(12, 13, RecordKind.ACQUIRED, 1, "m-1", 99)]


def test_reserved_offsets_are_not_acquired_by_a_member() -> None:
    reserved = StateBatch(15, 19, RecordState.ACQUIRED, 0, "gateway#1", 99)
    span = Span(10, 19)
    (column,) = columns(pieces([ACQUIRED, reserved], 10, span), span, most=1)
    assert column.kinds == {RecordKind.ACQUIRED: 5, RecordKind.RESERVED: 5}
    assert column.members == {"m-1": 5}


def test_few_records_have_a_column_each() -> None:
    span = Span(9, 12)
    drawn = columns(pieces([ACQUIRED], 0, span), span)
    assert [dict(column.kinds) for column in drawn] == [{RecordKind.NEW: 1}, *[{RecordKind.ACQUIRED: 1}] * 3]
    assert state_bars(drawn) == [Bar(0, 1, 0.0, 1.0, "new"), Bar(1, 3, 0.0, 1.0, "acquired")]
    assert member_bars(drawn, ["m-1"]) == [Bar(1, 3, 0, 1, "m0")]
    assert member_bars(drawn, ["other"] * 8 + ["m-1"]) == [Bar(1, 3, 0, 1, "others")]


def test_a_column_is_stacked_by_kind() -> None:
    span = Span(10, 19)
    (column,) = columns(pieces([ACQUIRED, AGAIN], 10, span), span, most=1)
    assert [(bar.name, bar.top, bar.height) for bar in state_bars([column])] == [
        ("acquired", 0.0, 0.5),
        ("again", 0.5, 0.2),
        ("new", 0.7, 0.3),
    ]


def test_the_picture_of_many_ranges_is_bounded() -> None:
    batches = many_ranges(100_000, ["a", "b"])
    span = Span(0, batches[-1].last_offset)
    drawn = columns(pieces(batches, 0, span), span)
    assert len(drawn) == COLUMNS
    assert len(state_bars(drawn)) <= COLUMNS * len(RecordKind)
    acquired = sum(b.last_offset - b.first_offset + 1 for b in batches if b.delivery_state is RecordState.ACQUIRED)
    assert sum(column.kinds[RecordKind.ACQUIRED] for column in drawn) == acquired
    assert sum(sum(column.members.values()) for column in drawn) == acquired


@given(st.integers(0, 400), st.integers(0, 900), st.integers(1, 400), st.integers(0, 300))
def test_every_record_is_in_one_column(first: int, more: int, most: int, start: int) -> None:
    span = Span(first, first + more)
    drawn = columns(pieces(many_ranges(200, ["a"]), start, span), span, most)
    assert [column.first for column in drawn[1:]] == [column.last + 1 for column in drawn[:-1]]
    assert (drawn[0].first, drawn[-1].last) == span
    assert all(sum(column.kinds.values()) == column.last - column.first + 1 for column in drawn)
    assert sum(zone.last - zone.first + 1 for _, _, zone in zones(drawn)) == span.records


@given(st.integers(0, 50), st.integers(0, 50), st.integers(-200, 200), st.sampled_from([0.25, 1, 4]))
def test_a_span_stays_within_its_bounds(first: int, more: int, by: int, factor: float) -> None:
    bounds, span = Span(0, 100), Span(first, first + more)
    for found in (move_span(span, bounds, by), zoom_span(span, bounds, factor)):
        assert 0 <= found.first <= found.last <= 100
    assert move_span(span, bounds, by).records == span.records
