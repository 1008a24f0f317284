"""The Python streaming source and the offer file between it and the member."""

import copy
import json
from pathlib import Path

from sharegroup.member.offer_file import OfferFile, OfferReader
from sharegroup.member.ranges import NOTHING, HeldRange, OfferedBatch
from sharegroup.spark.share_consumer.source import AcquiredRangesReader

BATCH = OfferedBatch(
    1, "i", (HeldRange("t", "id", 0, 0, 9, 1, 30_000), HeldRange("u", "id-u", 3, 5, 5, 2, 31_000, read_committed=True))
)


def reader_of(offers: str) -> AcquiredRangesReader:
    return AcquiredRangesReader({"offers": offers})


def planned_reader(offers: str) -> AcquiredRangesReader:
    """A source after its first, empty batch."""
    reader = reader_of(offers)
    reader.read(reader.initialOffset())
    return reader


def test_an_offer_is_claimed_once(tmp_path: Path) -> None:
    offers, reader = OfferFile(str(tmp_path)), OfferReader(str(tmp_path))
    assert reader.claim() is None
    offers.put(BATCH)
    assert not offers.is_claimed()
    assert reader.claim() == BATCH
    assert offers.is_claimed()
    assert not offers.withdraw()
    assert reader.claim() is None


def test_a_withdrawn_offer_cannot_be_claimed(tmp_path: Path) -> None:
    offers, reader = OfferFile(str(tmp_path)), OfferReader(str(tmp_path))
    offers.put(BATCH)
    assert offers.withdraw()
    assert reader.claim() is None


def test_a_claim_does_not_wait_after_close(tmp_path: Path) -> None:
    OfferFile(str(tmp_path)).close()
    assert OfferReader(str(tmp_path)).claim(wait_s=3_600) is None


def test_a_batch_can_be_repeated_from_its_offset(tmp_path: Path) -> None:
    OfferFile(str(tmp_path)).put(BATCH)
    reader = planned_reader(str(tmp_path))
    start = reader.initialOffset()
    rows, end = reader.read(start)
    first = list(copy.copy(rows))  # as Spark's wrapper does
    stored = json.loads(json.dumps(end))
    again = list(reader_of("elsewhere").readBetweenOffsets(start, stored))
    assert first == again == BATCH.rows()
    assert OfferedBatch.from_rows(first) == BATCH


def test_without_an_offer_there_are_no_rows_and_the_same_offset(tmp_path: Path) -> None:
    OfferFile(str(tmp_path)).close()
    reader = planned_reader(str(tmp_path))
    rows, end = reader.read(BATCH.to_json())
    assert (list(rows), end) == ([], BATCH.to_json())
    assert list(reader.readBetweenOffsets(end, end)) == []


def test_first_batch_of_each_start_is_empty_and_immediate(tmp_path: Path) -> None:
    start = NOTHING.to_json()
    for _ in range(2):  # restarted from the checkpoint
        rows, end = reader_of(str(tmp_path)).read(start)
        assert list(rows) == []
        assert end != start
        assert list(reader_of("elsewhere").readBetweenOffsets(start, json.loads(json.dumps(end)))) == []
        start = end


def test_no_rows_are_an_empty_batch() -> None:
    assert OfferedBatch.from_rows([]) == NOTHING
