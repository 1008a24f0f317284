"""State of a record in `browse`, and figures of a group in `top`."""

from __future__ import annotations

import pytest
from kafka import TopicPartition

from sharegroup.cli.browse import RecordStanding, get_standing
from sharegroup.cli.top import finished_records, total_lag
from sharegroup.kafka_clients.admin import LogOffsets, ShareGroupOffset
from sharegroup.storage import InFlightRange
from sharegroup.types import RecordState

RANGES = [
    InFlightRange("g", "t", "id", 0, 5, 6, RecordState.ACQUIRED, 2, "m", 1_000),
    InFlightRange("g", "t", "id", 0, 8, 8, RecordState.ACKNOWLEDGED, 1, None, None),
    InFlightRange("g", "t", "id", 0, 10, 19, RecordState.ACQUIRED, 0, "gateway#1", 2_000),
]


@pytest.mark.parametrize(
    ("offset", "standing"),
    [
        (4, RecordStanding("FINISHED")),
        (6, RecordStanding("ACQUIRED", 2, "1970-01-01T00:00:01.000Z", "m")),
        (7, RecordStanding("AVAILABLE", 0)),
        (8, RecordStanding("ACKNOWLEDGED", 1)),
        (9, RecordStanding("AVAILABLE", 0)),
        (10, RecordStanding("RESERVED", 0, "1970-01-01T00:00:02.000Z", "gateway#1")),
    ],
)
def test_the_standing_of_a_record_from_the_tables(offset: int, standing: RecordStanding) -> None:
    assert get_standing(offset, 5, RANGES) == standing


def test_the_standing_of_a_record_without_the_tables() -> None:
    assert [get_standing(offset, 5, None).state for offset in (4, 5)] == ["FINISHED", "UNFINISHED"]
    assert get_standing(4, None, RANGES) == RecordStanding(None)


def test_lag_and_finished_records_of_a_group() -> None:
    read, unread = TopicPartition("t", 0), TopicPartition("t", 1)
    offsets = {read: ShareGroupOffset(5, 1, 3), unread: ShareGroupOffset(None, None, None)}
    logs = {read: LogOffsets(0, 10), unread: LogOffsets(0, 4)}
    assert (total_lag(offsets), finished_records(offsets, logs)) == (3, 7)
    assert total_lag({unread: offsets[unread]}) is None
