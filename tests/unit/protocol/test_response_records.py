"""Response rows in records: one or several in each, as the requester accepts them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.protocol import response_records
from sharegroup.protocol.response_records import LIST_SUFFIX, decode_rows, to_record, to_records

TAKES_LISTS, TAKES_ROWS, NOBODY = f"gateway{LIST_SUFFIX}", "member", ""
KEYS = st.sampled_from((TAKES_LISTS, f"other{LIST_SUFFIX}", TAKES_ROWS, NOBODY))


def row(number: int, reply_to: str, size: int = 0) -> dict[str, Any]:
    return {"id": str(number), "reply_to": reply_to, "error_message": "\n[" * size}


def ids(records: Sequence[tuple[str, bytes]], key: str) -> list[list[str]]:
    return [[row["id"] for row in decode_rows(value)] for found, value in records if found == key]


@given(st.lists(st.tuples(KEYS, st.integers(0, 40))), st.integers(1, 400))
def test_each_reader_gets_its_rows_in_their_order(made: list[tuple[str, int]], most: int) -> None:
    rows = [row(number, key, size) for number, (key, size) in enumerate(made)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_records, "_MAX_CHARACTERS", most)
        records = to_records(rows)
    for key in {key for key, _ in made if key}:
        read = [row for found, value in records if found == key for row in decode_rows(value)]
        assert read == [said for said in rows if said["reply_to"] == key]
    assert {key for key, _ in records} == {key for key, _ in made} - {NOBODY}


def test_a_requester_without_lists_gets_a_record_for_each_row() -> None:
    records = to_records([row(1, TAKES_ROWS), row(2, TAKES_LISTS), row(3, TAKES_ROWS), row(4, TAKES_LISTS)])
    assert ids(records, TAKES_ROWS) == [["1"], ["3"]]
    assert ids(records, TAKES_LISTS) == [["2", "4"]]


def test_a_single_row_is_not_a_list() -> None:
    ((key, value),) = to_records([row(1, TAKES_LISTS)])
    assert (key, value) == to_record(row(1, TAKES_LISTS))
    assert json.loads(value) == row(1, TAKES_LISTS)


def test_a_list_ends_before_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(to_record(row(1, TAKES_LISTS))[1])
    monkeypatch.setattr(response_records, "_MAX_CHARACTERS", 2 * length)
    records = to_records([row(number, TAKES_LISTS) for number in range(5)])
    assert ids(records, TAKES_LISTS) == [["0", "1"], ["2", "3"], ["4"]]


def test_invalid_json_is_rejected() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        decode_rows(b"[{")
