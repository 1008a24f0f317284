"""Text formats of payloads, numbers and lists."""

from __future__ import annotations

import pytest

from sharegroup.ui import words
from sharegroup.ui.data.payloads import MOST_BYTES, PayloadText, payload_text
from sharegroup.ui.data.trend import LagHistory, polyline
from sharegroup.ui.paging import page_of, whole_number
from sharegroup.ui.result_cache import ResultCache


@pytest.mark.parametrize(
    ("payload", "form", "text"),
    [
        (None, "text", "null"),
        ("für\n".encode(), "text", "für\n"),
        (b"\xff\x00", "text", "\\xff\\x00"),
        ("a\u202eb".encode(), "text", "a\\u202eb"),
        (b'{"a":[1]}', "json", '{\n  "a": [\n    1\n  ]\n}'),
        (b"AB\x00", "hex", "00000000  41 42 00                                         AB."),
    ],
)
def test_a_payload_as_text(payload: bytes | None, form: str, text: str) -> None:
    assert payload_text(payload, form) == PayloadText(text, "")


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[" * 50_000])
def test_invalid_json_is_shown_as_text(payload: bytes) -> None:
    assert payload_text(payload, "json").note == "not JSON, shown as text"


def test_json_is_shown_without_hidden_characters() -> None:
    assert "\u202e" not in payload_text('{"a": "\u202e"}'.encode(), "json").text


def test_a_long_payload_is_cut_with_a_note() -> None:
    found = payload_text(b"x" * (MOST_BYTES + 1), "json")
    assert (len(found.text), found.note) == (MOST_BYTES, "the first 65,536 of 65,537 bytes")


@pytest.mark.parametrize(("number", "rows"), [(0, [0, 1]), (1, [0, 1]), (3, [4]), (9, [4])])
def test_a_page_number_is_limited_to_the_pages(number: int, rows: list[int]) -> None:
    page = page_of(range(5), number, size=2)
    assert (list(page.rows), page.pages, page.total) == (rows, 3, 5)


@pytest.mark.parametrize("text", [None, "", "-1", "1.5", "²", "9" * 20])
def test_an_invalid_number_is_replaced(text: str | None) -> None:
    assert whole_number(text, 7) == 7


def test_numbers_times_and_addresses_are_formatted() -> None:
    assert [words.duration(s) for s in (0, 59, 60, 61, 3_600, 7_260, 90_000)] == [
        "0 s", "59 s", "1 min", "1 min 1 s", "1 h", "2 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert [words.rate(r) for r in (None, 0.01, -2.5, 1234.56)] == ["–", "steady", "-2.5/s", "+1,234.6/s"]
    assert words.address("/g", path="a&b", none=None) == "/g?path=a%26b"


@pytest.mark.parametrize("at_ms", [2**62, -(2**63)])
def test_a_time_outside_the_calendar_is_shown_as_a_number(at_ms: int) -> None:
    assert words.moment(at_ms) == f"{at_ms} ms"


def test_the_trend_is_of_the_added_snapshots() -> None:
    history = LagHistory(limit=3)
    assert history.trend("g").per_second is None
    for at_s, lag in enumerate((100, 0, 10, 20)):
        history.add(at_s * 1000, {"g": lag})
    assert history.trend("g").lags == ((1000, 0), (2000, 10), (3000, 20))
    assert history.trend("g").per_second == 10
    assert polyline(history.trend("g").lags, 100, 10) == "0.0,10.0 50.0,5.0 100.0,0.0"


def test_a_result_is_cached_for_nine_times_its_duration() -> None:
    now, made = [0.0], []

    def make() -> int:
        made.append(now[0])
        now[0] += 2
        return len(made)

    kept = ResultCache(lambda: now[0])
    assert [kept.get("a", make), kept.get("a", make)] == [1, 1]
    now[0] = 19.9
    assert kept.get("a", make) == 1
    now[0] = 20.0
    assert kept.get("a", make) == 2
