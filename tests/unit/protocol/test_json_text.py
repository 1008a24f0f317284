"""JSON texts and errors equal those of the standard library."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.protocol.json_text import from_json, pack_text, to_json, unpack_json

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Range(NamedTuple):
    first: int
    last: int


class Code(IntEnum):
    REJECTED = 3


@given(VALUES)
def test_both_libraries_read_what_either_writes(value: Any) -> None:
    text = to_json(value)
    assert from_json(text) == json.loads(text) == value
    assert from_json(json.dumps(value)) == from_json(text.encode()) == value


@given(VALUES)
def test_a_packed_value_is_unpacked(value: Any) -> None:
    assert unpack_json(pack_text(to_json(value))) == value


def test_tuples_become_lists_and_integer_keys_their_digits() -> None:
    assert to_json({1: (Range(1, 2), Code.REJECTED)}) == '{"1":[[1,2],3]}'


@pytest.mark.parametrize(
    "text",
    ["", "[1", "{'a': 1}", '"\x01"', "nul", "1 2", "1" * 5_000, "[" * 100_000],
    ids=["nothing", "open", "quotes", "control character", "word", "two", "digits", "deep"],
)
def test_invalid_json_has_the_error_of_the_standard_library(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as standard:
        json.loads(text)
    with pytest.raises(standard.type) as ours:
        from_json(text)
    if standard.type is not RecursionError:
        assert str(ours.value) == str(standard.value)


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[1e400]", '["\\ud800"]', f"[{2**70}]", '{"a": 1, "a": 2}'])
def test_a_text_that_only_the_standard_library_accepts_is_accepted(text: str) -> None:
    assert repr(from_json(text)) == repr(json.loads(text))
