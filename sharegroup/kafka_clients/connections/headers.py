"""Headers of requests and responses, and the messages behind them (kafka-python's classes do the encoding).

What clients send is decoded in `request_decoding`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol, Self, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ShareGroupError

_REQUEST = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
#: Nobody has as many; they are skipped one by one, and a frame could hold millions of them.
MAX_TAGGED_FIELDS = 1_024
#: Longest string, in bytes. Compact strings could be longer, but a broker closes the connection on which it reads one.
#: On a connection that the gateway shares, one client would stop all others.
MAX_STRING_BYTES = 0x7FFF


class MalformedRequestError(ShareGroupError):
    """The client sent bytes that are no Kafka request; its connection is closed."""


class UnknownVersionError(ShareGroupError):
    """The client sent a version of an API that it was not offered; its connection is closed."""


class ResponseMessage(Protocol):
    """The class of a response: one of kafka-python's, or one of ours that decodes no more of it than it needs."""

    API_KEY: int

    @classmethod
    def flexible_version_q(cls, version: int) -> bool:
        """Whether a version has tagged fields."""

    @classmethod
    def decode(cls, data: memoryview, version: int) -> Self:
        """The message behind a response's header."""


#: A part of what is sent; a view is sent before its memory is used for something else.
Piece = bytes | bytearray | memoryview


class EncodedResponse:
    """A response that is encoded already, in the request's version, but for its header and its throttle time."""

    def throttle(self, throttle_time_ms: int) -> None:
        """The client is to wait so long before its next request."""
        raise NotImplementedError

    def pieces(self, correlation_id: int) -> list[Piece]:
        """The response with its length and header in front, to be sent one piece after the other."""
        raise NotImplementedError


#: What handlers return.
AnyResponse = ApiMessage | EncodedResponse
Response = TypeVar("Response", bound=ResponseMessage)


class RequestHeader(NamedTuple):
    """The part of a request's header that all versions share; `end` is where it ends in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


def read_header(frame: memoryview) -> RequestHeader:
    """The header, without the tagged fields of version 2. Raises MalformedRequestError."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
        end = _REQUEST.size + max(length, 0)
        client_id = str(frame[_REQUEST.size : end], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"no request header: {error}") from None
    if length < -1 or end > len(frame):
        raise MalformedRequestError(f"no request header: a client id of {length} bytes")
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def encode_pieces(response: AnyResponse, version: int, correlation_id: int) -> list[Piece]:
    """The response with its length and header in front, to be sent piece by piece. It may be encoded again."""
    if isinstance(response, EncodedResponse):
        return response.pieces(correlation_id)
    return [encode_response(response, version, correlation_id)]


def encode_response(response: ApiMessage, version: int, correlation_id: int) -> bytearray:
    """The same in one piece."""
    response.API_VERSION = version  # before there is a header: a response's header has no version to repeat
    return encode_versioned_response(response, correlation_id)


def encode_versioned_response(response: ApiMessage, correlation_id: int) -> bytearray:
    """The same of a response that has its version already, as those that were decoded."""
    response.with_header(correlation_id=correlation_id)
    return _framed(response)


def encode_request(request: ApiMessage, version: int, correlation_id: int, client_id: str) -> bytearray:
    """The framed request; `version` is set before the header, which repeats it."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return _framed(request)


def _framed(message: ApiMessage) -> bytearray:
    """The framed message, as kafka-python made it: no copy."""
    encoded: bytearray = message.encode(header=True, framed=True)
    message._header = None  # which would be in the way of the next version
    return encoded


def correlation_id(frame: memoryview) -> int:
    """The correlation id of a response frame."""
    return int(_INT32.unpack_from(frame)[0])


def decode_response(message: type[Response], version: int, frame: memoryview) -> Response:
    """The response as an instance of the class `message`, its bytes fields not copied where it can."""
    start = _INT32.size
    if message.API_KEY != 18 and message.flexible_version_q(version):  # ApiVersions keeps the old header for ever
        start = skip_tagged_fields(frame, start)
    return message.decode(frame[start:], version=version)


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Where the tagged fields that begin at `position` end. Raises MalformedRequestError."""
    count, position = read_varint(frame, position)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequestError(f"{count} tagged fields")
    for _ in range(count):
        _, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedRequestError("a tagged field that is longer than the request")
    return position


def encoded_varint(value: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint and where it ends. Raises MalformedRequestError."""
    if position < len(frame) and frame[position] < 0x80:
        return frame[position], position + 1  # nearly always
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(frame):
            break
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise MalformedRequestError("a varint without an end")
