"""Headers, and their varints and tagged fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.kafka_clients.connections.headers import (
    MAX_TAGGED_FIELDS,
    MalformedRequestError,
    correlation_id,
    decode_response,
    encode_request,
    encode_response,
    read_header,
    read_varint,
    skip_tagged_fields,
)
from tests.unit.gateway.wire_bytes import varint


def view(*parts: bytes) -> memoryview:
    return memoryview(b"".join(parts))


def tagged_field(tag: int, value: bytes) -> bytes:
    return varint(tag) + varint(len(value)) + value


@given(st.integers(0, 13), st.integers(0, 2**31 - 1), st.text(max_size=50))
def test_header_round_trip(version: int, correlation_id: int, client_id: str) -> None:
    frame = encode_request(MetadataRequest(topics=[]), version, correlation_id, client_id)
    header = read_header(memoryview(frame)[4:])
    assert header[:4] == (3, version, correlation_id, client_id)
    assert frame[4 + header.end - len(client_id.encode()) : 4 + header.end] == client_id.encode()


def test_client_id_may_be_null() -> None:
    assert read_header(view(b"\0\x12\0\3\0\0\0\7\xff\xff")).client_id == ""


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\3\0\0\0\7\xff",
        b"\0\x12\0\3\0\0\0\7\xff\xfe",
        b"\0\x12\0\3\0\0\0\7\0\5four",
        b"\0\x12\0\3\0\0\0\7\0\2\xff\xff",
    ],
    ids=["nothing", "cut off", "length -2", "client id cut off", "client id not UTF-8"],
)
def test_invalid_header_is_rejected(frame: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="invalid request header"):
        read_header(view(frame))


@given(st.binary(max_size=40))
def test_random_bytes_are_decoded_or_rejected(frame: bytes) -> None:
    try:
        header = read_header(view(frame))
    except MalformedRequestError:
        return
    assert header.end <= len(frame)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_varint_round_trip(value: int, after: bytes) -> None:
    encoded = varint(value)
    assert read_varint(view(b"\0", encoded, after), 1) == (value, 1 + len(encoded))
    with pytest.raises(MalformedRequestError, match="varint without an end"):
        read_varint(view(encoded[:-1]), 0)


def test_varint_has_at_most_five_bytes() -> None:
    with pytest.raises(MalformedRequestError, match="varint without an end"):
        read_varint(view(b"\xff" * 1_000_000), 0)


@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200)), max_size=5), st.binary(max_size=3))
def test_tagged_fields_are_skipped(fields: list[tuple[int, bytes]], after: bytes) -> None:
    encoded = varint(len(fields)) + b"".join(tagged_field(*field) for field in fields)
    assert skip_tagged_fields(view(b"ab", encoded, after), 2) == 2 + len(encoded)
    with pytest.raises(MalformedRequestError):
        skip_tagged_fields(view(encoded[:-1]), 0)


def test_too_many_tagged_fields_are_rejected() -> None:
    count = varint(MAX_TAGGED_FIELDS + 1)
    with pytest.raises(MalformedRequestError, match="1025 tagged fields"):
        skip_tagged_fields(view(count, b"\0\0" * (MAX_TAGGED_FIELDS + 1)), 0)


def test_response_can_be_encoded_in_another_version() -> None:
    """The response of a throttled client is encoded twice."""
    response = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=[])
    first = encode_response(response, 1, 7)
    response.throttle_time_ms = 5
    second = encode_response(response, 12, 8)
    assert (correlation_id(memoryview(first)[4:]), correlation_id(memoryview(second)[4:])) == (7, 8)
    assert decode_response(MetadataResponse, 12, memoryview(second)[4:]).throttle_time_ms == 5
    assert encode_response(response, 1, 7) == first
