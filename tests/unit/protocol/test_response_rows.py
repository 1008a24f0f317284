"""Rows of the response topic come back as they were written; what is none is told apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_rows import (
    EVERYBODY,
    MEMBER_LEFT,
    NEW_LEADER,
    TOPIC_DELETED,
    Broadcast,
    PartitionError,
    Response,
    ShareGroupResponse,
    SharePartitionResponse,
    TopicError,
    decode_broadcast,
    decode_response,
    encode_response,
)
from sharegroup.types import AcquiredRange

TEXT = st.text('aZ0 \t"\\\x00ß€😀', max_size=4)
NUMBER = st.integers(-1, 2**63 - 1)
RESPONSES = st.one_of(
    st.builds(
        SharePartitionResponse,
        TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, NUMBER, TEXT, st.sampled_from(ErrorCode), st.none() | TEXT,
        st.lists(st.builds(AcquiredRange, NUMBER, NUMBER, NUMBER), max_size=3).map(tuple), NUMBER,
        st.booleans(), st.booleans(),
    ),
    st.builds(
        ShareGroupResponse,
        TEXT, TEXT, TEXT, TEXT, TEXT, st.sampled_from(ErrorCode), st.none() | TEXT, NUMBER, NUMBER,
        st.none() | st.dictionaries(TEXT, st.tuples(TEXT, st.lists(NUMBER, max_size=3)).map(list), max_size=2),
        st.none() | st.lists(TEXT, max_size=2).map(tuple),
        st.lists(st.builds(PartitionError, TEXT, NUMBER, NUMBER, st.none() | TEXT), max_size=2).map(tuple),
        st.lists(st.builds(TopicError, TEXT, NUMBER, st.none() | TEXT), max_size=2).map(tuple), NUMBER,
    ),
)  # fmt: skip


@settings(max_examples=50)
@given(RESPONSES)
def test_a_response_comes_back(response: Response) -> None:
    decoded = decode_response(json.dumps(encode_response(response)).encode())
    assert (type(decoded), decoded) == (type(response), response)


@settings(max_examples=20)
@given(st.tuples(st.sampled_from([NEW_LEADER, MEMBER_LEFT, TOPIC_DELETED]), TEXT, TEXT, NUMBER, TEXT))
def test_a_row_for_everybody_comes_back(fields: tuple[str, str, str, int, str]) -> None:
    broadcast = Broadcast(*fields)
    assert broadcast.reply_to == EVERYBODY
    assert decode_broadcast(broadcast.encode()) == broadcast


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"5", b"null", b"{}", b'{"member_id":"m"}', b"\xff"])
def test_what_is_no_row_for_everybody_is_told_apart(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message or ours
        decode_broadcast(value)


def test_a_heartbeat_response_of_an_earlier_version_is_read() -> None:
    row = b'{"type":"heartbeat","id":"x","reply_to":"me","group_id":"g","member_id":"m","member_epoch":3}'
    assert decode_response(row) == ShareGroupResponse("heartbeat", "x", "me", "g", "m", member_epoch=3)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"5", b"null", b"{}", b'{"topic":"orders"}', b'{"id":"x","color":"red"}', b"\xff"]
)
def test_what_is_no_response_is_told_apart(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message or ours
        decode_response(value)
