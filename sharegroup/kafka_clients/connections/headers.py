"""Encodes and decodes requests and responses with their headers. kafka-python's classes encode the messages.

Clients' requests are decoded in `request_decoding`.
"""

import struct
from typing import NamedTuple, Protocol, Self, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ShareGroupError

_REQUEST = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
#: Maximum number of tagged fields in one place of a frame. A frame could contain millions, and each is skipped
#: individually.
MAX_TAGGED_FIELDS = 1_024
#: Maximum length of a string, in bytes. Kafka's compact strings can be longer, but a broker that receives such a string
#: closes the connection. All clients of a gateway share its connections to the brokers, so one client could disturb all
#: others.
MAX_STRING_BYTES = 0x7FFF


class MalformedRequestError(ShareGroupError):
    """The client sent bytes that are not a Kafka request. Its connection is closed."""


class UnknownVersionError(ShareGroupError):
    """The client sent a request in an API version that is not supported. Its connection is closed."""


class ResponseMessage(Protocol):
    """The class of a response: kafka-python's class, or a class of this project that decodes only some fields."""

    API_KEY: int

    @classmethod
    def flexible_version_q(cls, version: int) -> bool:
        """Return whether a version has tagged fields."""

    @classmethod
    def decode(cls, data: memoryview, version: int) -> Self:
        """Decode a message from `data`, the bytes that follow a response's header."""


#: A part of a message to send. Views are sent before their memory is reused.
Piece = bytes | bytearray | memoryview


class EncodedResponse:
    """A response that is already encoded, except for its header and its throttle time."""

    def throttle(self, throttle_time_ms: int) -> None:
        """Set the time in ms that the client has to wait before its next request."""
        raise NotImplementedError

    def pieces(self, correlation_id: int) -> list[Piece]:
        """Return the response with its length and header, as pieces to send in order."""
        raise NotImplementedError


#: A response that a request handler returns.
AnyResponse = ApiMessage | EncodedResponse
Response = TypeVar("Response", bound=ResponseMessage)


class RequestHeader(NamedTuple):
    """The fields of a request header that all header versions have.

    `end` is the position in the frame after these fields.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    end: int


def read_header(frame: memoryview) -> RequestHeader:
    """Decode a request's header, except for the tagged fields of header version 2. Raises MalformedRequestError."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
        end = _REQUEST.size + max(length, 0)
        client_id = str(frame[_REQUEST.size : end], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"invalid request header: {error}") from None
    if length < -1 or end > len(frame):
        raise MalformedRequestError(f"invalid request header: the length of the client id is {length}")
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def encode_pieces(response: AnyResponse, version: int, correlation_id: int) -> list[Piece]:
    """Return the response with its length and header, as pieces to send in order.

    The same response may be encoded several times.
    """
    if isinstance(response, EncodedResponse):
        return response.pieces(correlation_id)
    return [encode_response(response, version, correlation_id)]


def encode_response(response: ApiMessage, version: int, correlation_id: int) -> bytearray:
    """Return the response with its length and header."""
    response.API_VERSION = version  # must be set before the header, because a response's header has no version
    return encode_versioned_response(response, correlation_id)


def encode_versioned_response(response: ApiMessage, correlation_id: int) -> bytearray:
    """Return the response with its length and header, in the version that its `API_VERSION` contains."""
    response.with_header(correlation_id=correlation_id)
    return _framed(response)


def encode_request(request: ApiMessage, version: int, correlation_id: int, client_id: str) -> bytearray:
    """Return the request with its length and header."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return _framed(request)


def _framed(message: ApiMessage) -> bytearray:
    """Encode the length, the header and the message into one buffer, so that the message need not be copied."""
    encoded: bytearray = message.encode(header=True, framed=True)
    message._header = None  # would prevent encoding in another version
    return encoded


def correlation_id(frame: memoryview) -> int:
    return int(_INT32.unpack_from(frame)[0])


def decode_response(message: type[Response], version: int, frame: memoryview) -> Response:
    """Decode a response as an instance of `message`. Its bytes fields are views of `frame` if possible."""
    start = _INT32.size
    if message.API_KEY != 18 and message.flexible_version_q(version):  # ApiVersions keeps the old header
        start = skip_tagged_fields(frame, start)
    return message.decode(frame[start:], version=version)


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Return the position after the tagged fields that start at `position`. Raises MalformedRequestError."""
    count, position = read_varint(frame, position)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequestError(f"{count} tagged fields are more than the limit of {MAX_TAGGED_FIELDS}")
    for _ in range(count):
        _, position = read_varint(frame, position)
        size, position = read_varint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedRequestError("a tagged field is longer than the request")
    return position


def encode_varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position` and the position after it. Raises MalformedRequestError."""
    if position < len(frame) and frame[position] < 0x80:
        return frame[position], position + 1  # the usual case
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
