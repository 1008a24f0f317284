"""The history of one record, read from `delivery_log`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sharegroup.storage import TableMissingError, TableUnavailableError, read_record_history, table_path
from sharegroup.storage.schemas import DELIVERY_LOG
from sharegroup.storage.writing.delta_table import open_or_create

START = datetime(2026, 11, 22, tzinfo=UTC)


def row(first: int, last: int, cause: str, batch: int, **changed: Any) -> dict[str, Any]:
    time = START + timedelta(seconds=batch)
    values = {
        "day": time.date(), "group_id": "g", "topic": "t", "topic_id": "id", "partition": 0, "first_offset": first,
        "last_offset": last, "from_state": "AVAILABLE", "to_state": "ACQUIRED", "cause": cause, "member_id": "m",
        "delivery_count": 1, "lock_deadline": None, "leader_epoch": 1, "batch_id": batch, "time": time,
    }  # fmt: skip
    return {**values, **changed}


def append(tables: str, *rows: dict[str, Any]) -> None:
    """Append rows as one file."""
    found = pa.Table.from_pylist(list(rows), schema=DELIVERY_LOG.schema)
    write_deltalake(open_or_create(tables, DELIVERY_LOG), found, mode="append")


def causes(tables: str, offset: int) -> list[str]:
    return [found.cause for found in read_record_history(tables, "g", "t", 0, offset)]


def test_the_history_of_a_record(tmp_path: Path) -> None:
    tables = str(tmp_path)
    append(tables, row(5, 5, "accept", 3), row(0, 9, "fetch", 1), row(10, 19, "fetch", 1))
    append(tables, row(4, 6, "lock_timeout", 2), row(5, 5, "fetch", 1, leader_epoch=2))
    append(tables, *(row(0, 9, "other", 2, **other) for other in ({"group_id": "h"}, {"topic": "u"}, {"partition": 1})))
    assert causes(tables, 5) == ["fetch", "lock_timeout", "accept", "fetch"]
    assert causes(tables, 9) == ["fetch"]
    assert causes(tables, 10) == ["fetch"]
    assert causes(tables, 20) == []
    first = read_record_history(tables, "g", "t", 0, 5)[0]
    assert (first.first_offset, first.last_offset, first.to_state, first.member_id) == (0, 9, "ACQUIRED", "m")
    assert first.time == START + timedelta(seconds=1)


def test_files_without_the_record_are_not_read(tmp_path: Path) -> None:
    tables = str(tmp_path)
    append(tables, row(0, 9, "fetch", 1))
    (far,) = DeltaTable(table_path(tables, DELIVERY_LOG)).file_uris()
    append(tables, row(10, 19, "fetch", 2))
    Path(far).unlink()
    assert causes(tables, 15) == ["fetch"]
    with pytest.raises(TableUnavailableError, match="delivery_log cannot be read"):
        causes(tables, 5)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableMissingError):
        causes(str(tmp_path), 0)
