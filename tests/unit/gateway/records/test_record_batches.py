"""Batch headers of all formats, aborted batches, and bytes that no broker sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.errors import ShareGroupError
from sharegroup.gateway.records.record_batches import CorruptRecordBatch, RecordBatch, read_batches
from tests.unit.gateway.log_batches import (
    ABORT,
    COMMIT,
    batch,
    control_batch,
    emptied,
    messages,
    patched,
    placed,
    with_delta,
)

GZIP = 1


def offsets(batches: list[RecordBatch]) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.last_offset) for batch in batches]


def kinds(batches: list[RecordBatch]) -> str:
    """Return one letter per batch: data, control, aborted, empty."""
    letters = []
    for b in batches:
        letters.append("c" if b.is_control else "a" if b.is_aborted else "e" if b.is_empty else "d")
        assert b.is_data == (letters[-1] == "d")
    return "".join(letters)


def test_batches_with_their_bytes_uncopied() -> None:
    parts = [batch(100, 3), batch(103, 2, codec=GZIP), with_delta(batch(110, 2), 9)]
    records = b"".join(parts)
    batches = read_batches(records, 100)
    assert offsets(batches) == [(100, 102), (103, 104), (110, 119)]
    assert kinds(batches) == "ddd"
    assert [bytes(b.data) for b in batches] == parts
    assert all(b.data.obj is records for b in batches)


def test_batches_below_the_fetch_offset_are_left_out() -> None:
    records = batch(100, 3) + batch(103, 5) + batch(108, 1)
    batches = read_batches(memoryview(records), 105)
    assert offsets(batches) == [(103, 107), (108, 108)]


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 30, 60, 61, 100])
def test_incomplete_batch_is_dropped(cut: int) -> None:
    records = batch(100, 3) + batch(103, 5)[:cut]
    assert offsets(read_batches(records, 100)) == [(100, 102)]


def test_empty_response_has_no_batches() -> None:
    assert read_batches(b"", 5) == []


def test_emptied_batch_is_not_a_data_batch() -> None:
    batches = read_batches(emptied(batch(100, 50)) + batch(150, 1), 100)
    assert (offsets(batches), kinds(batches)) == ([(100, 149), (150, 150)], "ed")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_batches_of_one(magic: int) -> None:
    batches = read_batches(messages(magic, range(7, 10)) + messages(magic, range(20, 21)), 8)
    assert offsets(batches) == [(8, 8), (9, 9), (20, 20)]


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_message_of_magic_1_covers_offsets_back_to_the_fetch(magic: int) -> None:
    records = (
        messages(magic, range(90, 95), GZIP) + messages(magic, range(95, 110), GZIP) + messages(magic, range(110, 120))
    )
    assert offsets(read_batches(records, 100))[:2] == [(100, 109), (110, 110)]
    both = read_batches(records, 80)
    assert offsets(both)[:2] == [(80, 94), (95, 109)]


def transactions() -> bytes:
    """Return a log of producers 1 and 2: 1 aborts a transaction between two that it commits, 2 aborts its only one."""
    return b"".join(
        [
            batch(0, 2, producer_id=1, transactional=True),
            control_batch(2, 1, COMMIT),
            batch(3, 2, producer_id=2, transactional=True),
            batch(5, 2, producer_id=1, transactional=True),
            batch(7, 2, producer_id=1),  # not in a transaction
            control_batch(9, 1, ABORT),
            batch(10, 2, producer_id=1, transactional=True),
            batch(12, 2, producer_id=2, transactional=True),
            control_batch(14, 1, COMMIT),
            control_batch(15, 2, ABORT),
            batch(16, 1),
        ]
    )


def test_read_committed_leaves_out_what_was_aborted() -> None:
    assert kinds(read_batches(transactions(), 0, [(2, 3), (1, 5)])) == "dcaadcdaccd"


def test_read_uncommitted_sees_all_but_the_markers() -> None:
    assert kinds(read_batches(transactions(), 0)) == "dcdddcddccd"


def test_markers_below_the_fetch_offset_count() -> None:
    """The response begins with the batch that contains the fetch offset, and may contain a marker before it."""
    assert kinds(read_batches(transactions(), 11, [(2, 3), (1, 5)])) == "daccd"


def test_producer_may_abort_twice() -> None:
    records = b"".join(
        part
        for base in (0, 6)
        for part in (
            batch(base, 2, producer_id=1, transactional=True),
            control_batch(base + 2, 1, ABORT),
            batch(base + 3, 2, producer_id=1, transactional=True),
            control_batch(base + 5, 1, COMMIT),
        )
    )
    assert kinds(read_batches(records, 0, [(1, 6), (1, 0)])) == "acdcacdc"


def test_transaction_may_have_one_record() -> None:
    records = batch(5, 1, producer_id=1, transactional=True) + control_batch(6, 1, ABORT)
    assert kinds(read_batches(records, 0, [(1, 5)])) == "ac"


def test_emptied_marker_does_not_end_a_transaction() -> None:
    records = emptied(control_batch(0, 1, ABORT)) + batch(1, 1, producer_id=1, transactional=True)
    assert kinds(read_batches(records, 0, [(1, 0)])) == "ca"


@pytest.mark.parametrize(
    "records",
    [
        patched(batch(0, 1), 8, ">i", -1),
        patched(batch(0, 1), 8, ">i", 13),
        patched(batch(0, 1), 8, ">i", 48),
        patched(batch(0, 1), 16, ">b", 3),
        patched(batch(0, 1), 16, ">b", -1),
        placed(batch(0, 1), -1),
        with_delta(batch(0, 1), -1),
        patched(batch(0, 1), 57, ">i", -1),
        patched(messages(1, range(1)), 8, ">i", 21),
        batch(5, 2) + batch(6, 2),
        batch(5, 2) + batch(1, 10),
        bytes(100),
    ],
)
def test_garbage(records: bytes) -> None:
    with pytest.raises(CorruptRecordBatch) as error:
        read_batches(records, 0)
    assert isinstance(error.value, ShareGroupError)
    assert isinstance(error.value, ValueError)


def test_marker_without_a_record_is_corrupt() -> None:
    cut = control_batch(0, 1, ABORT)[:63]
    with pytest.raises(CorruptRecordBatch):
        read_batches(patched(cut, 8, ">i", len(cut) - 12), 0, [(1, 0)])


@given(st.binary(max_size=200), st.integers(0, 2), st.integers(14, 120))
def test_random_bytes_are_read_or_rejected(noise: bytes, magic: int, length: int) -> None:
    """Also after a length and magic with which they look like a batch."""
    data = bytearray(17) + noise
    data[8:12] = length.to_bytes(4, "big")
    data[16] = magic
    for records in (noise, bytes(data)):
        try:
            batches = read_batches(records, 0, [(0, 0)])
        except CorruptRecordBatch:
            continue
        assert sum(len(b.data) for b in batches) <= len(records)
        assert all(0 <= b.base_offset <= b.last_offset for b in batches)
