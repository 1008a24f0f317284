"""A window in pieces equals the window in one, for any size of pieces and any number of dumps."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.core.share_partition import SharePartition, SharePartitionConfig, in_flight, window_piece
from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.window_piece import Content, PieceSummary
from sharegroup.protocol.range_map import RangeMap
from sharegroup.types import AcknowledgementBatch, RecordState, StateBatch
from tests.unit.core.share_partition.operations import ALL_OPERATIONS, CONFIGS, Driver, Operation

ACQUIRED, AVAILABLE, ACKNOWLEDGED = RecordState.ACQUIRED, RecordState.AVAILABLE, RecordState.ACKNOWLEDGED
RECORDS = st.one_of(
    st.tuples(st.just(ACKNOWLEDGED), st.integers(1, 2)),
    st.tuples(st.just(AVAILABLE), st.integers(0, 3)),
    st.tuples(st.just(ACQUIRED), st.integers(1, 2), st.sampled_from(["m1", "m2"]), st.integers(5, 9)),
).map(lambda fields: InFlightRecord(*fields))
#: (first offset, length, record), or an offset below which all is forgotten.
STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 60), st.integers(1, 12), RECORDS), st.integers(0, 20)), max_size=40)
OPERATIONS = st.lists(ALL_OPERATIONS, max_size=25)


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_flight, "PIECE_RANGES", 2)
        patch.setattr(window_piece, "_FEW_RANGES", 1)  # more are texts
        yield


def restored(window: InFlight, base: int) -> InFlight:
    pieces, texts = window.dump(base)
    assert not any("\n" in text for text in texts)
    return InFlight.restore(json.loads(json.dumps(pieces)), texts, base)


@given(STEPS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_is_a_map_with_indexes(steps: list[tuple[int, int, InFlightRecord] | int], restarts: bool) -> None:
    window, model, base = InFlight(), RangeMap[InFlightRecord](), 0
    for step in steps:
        if isinstance(step, int):
            base = max(base, step)
            window.trim_below(base)
            model.trim_below(base)
        elif step[0] >= base:
            first, length, record = step
            window.assign(first, first + length - 1, record)
            model.assign(first, first + length - 1, record)
        if restarts:
            window = restored(window, base)
        check_equal(window, model)


def check_equal(window: InFlight, model: RangeMap[InFlightRecord]) -> None:
    known = list(model)
    assert RangeMap(window.items()) == model
    assert window.state_batches() == [StateBatch(first, last, *record[:4]) for first, last, record in known]
    assert (window.first_offset, window.last_offset) == (model.first_offset, model.last_offset)
    assert list(window.holes(3, 50)) == list(model.holes(3, 50))
    assert window.record_at(17) == next((record for _, _, record in model.items(17, 17)), None)
    assert RangeMap(window.items(10, 40)) == RangeMap(model.items(10, 40))

    def count(*states: RecordState) -> int:
        return sum(last - first + 1 for first, last, record in known if record.state in states)

    assert window.terminal_count == count(ACKNOWLEDGED)
    assert window.available_count == count(AVAILABLE)
    available = [(first, last, record) for first, last, record in known if record.state is AVAILABLE]
    assert window.first_available == (available[0][0] if available else None)
    assert RangeMap(window.available(0, 100)) == RangeMap(available)
    assert window.has_delivered(2, 5, 30) == any(
        record.delivery_count >= 2 and first <= 30 and last >= 5 for first, last, record in available
    )
    locked = [(first, last, record) for first, last, record in known if record.state is ACQUIRED]
    deadlines = [record.lock_deadline_ms or 0 for _, _, record in locked]
    assert window.next_deadline_ms() == min(deadlines, default=None)
    for now_ms in (9, 6, 8):
        assert window.is_due(now_ms) == any(deadline < now_ms for deadline in deadlines)
    assert offsets(window.due_ranges(7)) == offsets((f, last) for f, last, r in locked if (r.lock_deadline_ms or 0) < 7)
    for member in ("m1", "m2"):
        held = [(first, last) for first, last, record in locked if record.member_id == member]
        assert offsets(window.held_ranges(member)) == offsets(held)
        assert window.has_member(member) == bool(held)
    assert window.members() == sorted({record.member_id for _, _, record in locked if record.member_id})


def offsets(ranges: Iterator[tuple[int, int]] | list[tuple[int, int]]) -> list[int]:
    return [offset for first, last in ranges for offset in range(first, last + 1)]


@given(CONFIGS, OPERATIONS)
@settings(max_examples=150, deadline=None)
def test_a_machine_in_small_pieces_does_the_same(config: SharePartitionConfig, operations: list[Operation]) -> None:
    holes = [StateBatch(3, 4, AVAILABLE, 2), StateBatch(7, 9, ACKNOWLEDGED, 1)]
    whole, pieces = (Driver(SharePartition.load(0, holes, 0, 14), config) for _ in range(2))
    for operation in operations:
        pieces.partition = SharePartition.restore(json.loads(json.dumps(pieces.partition.dump())))
        assert pieces.apply(operation) == whole.apply(operation)
        assert pieces.partition.state_batches() == whole.partition.state_batches()
        assert pieces.partition.start_offset == whole.partition.start_offset
        assert pieces.partition.next_deadline_ms() == whole.partition.next_deadline_ms()
        assert pieces.partition.next_fetch_offset() == whole.partition.next_fetch_offset()


# -- what a batch reads ------------------------------------------------------------------------------------------------

RAGGED, CONFIG = 2_000, SharePartitionConfig(max_record_locks=10_000)


@pytest.fixture
def ragged() -> SharePartition:
    """Return a machine where every other record of 0..1999 is acknowledged."""
    partition = SharePartition(0, 0, RAGGED + 10)
    partition.replay(partition.acquire("m1", RAGGED, 0, CONFIG))
    batches = [AcknowledgementBatch(offset, offset, (1,)) for offset in range(1, RAGGED, 2)]
    partition.replay(partition.acknowledge("m1", batches, 0, CONFIG, False))
    return SharePartition.restore(partition.dump())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[PieceSummary]:
    """Return the pieces that are read."""
    pieces: list[PieceSummary] = []
    real = window_piece._read

    def read(summary: PieceSummary, content: Content) -> RangeMap[InFlightRecord]:
        pieces.append(summary)
        return real(summary, content)

    monkeypatch.setattr(window_piece, "_read", read)
    return pieces


def test_operations_on_few_ranges_read_few_pieces(ragged: SharePartition, read: list[PieceSummary]) -> None:
    assert len(ragged.dump()[-1]) == RAGGED / 2
    assert read == []
    ragged.replay(ragged.acknowledge("m1", [AcknowledgementBatch(1_000, 1_000, (2,))], 5, CONFIG, False))
    ragged.replay(ragged.acquire("m2", 5, 5, CONFIG))
    assert not ragged.is_due(CONFIG.record_lock_duration_ms)
    ragged.dump()
    # the pieces of the record, of the following fetch candidates, and of the window's end
    assert len(read) <= 4
    assert ragged.has_member("m2")


def test_pieces_become_few_again_with_their_ranges(ragged: SharePartition) -> None:
    batches = [AcknowledgementBatch(offset, offset, (1,)) for offset in range(2, RAGGED, 2)]
    ragged.replay(ragged.acknowledge("m1", batches, 5, CONFIG, False))
    assert len(ragged.dump()[-2]) == 2
    assert len(ragged.state_batches()) == 2


def test_one_record_of_a_window_of_ten_million_costs_two_ranges_more() -> None:
    config = SharePartitionConfig(max_record_locks=10_000_000)
    partition = SharePartition(0, 0, 20_000_000)
    partition.replay(partition.acquire("m1", 10_000_000, 0, config))
    partition = SharePartition.restore(partition.dump())
    partition.replay(partition.acknowledge("m1", [AcknowledgementBatch(5_000_000, 5_000_000, (1,))], 0, config, False))
    assert [(first, last) for first, last, *_ in partition.state_batches()] == [
        (0, 4_999_999), (5_000_000, 5_000_000), (5_000_001, 9_999_999),
    ]  # fmt: skip
