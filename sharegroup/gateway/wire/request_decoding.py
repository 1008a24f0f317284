"""Decoder for requests of untrusted clients. For any bytes, its time and memory are linear in the size of the request.

kafka-python's message classes trust the bytes. This is adequate for responses of brokers, but not for requests of
clients:

- For each struct with tagged fields, they copy the rest of the frame. Therefore 4 MB of such structs block the event
  loop for over ten seconds. They read a varint of any length to its end, which takes quadratic time.
- They accept a string that is cut off by the end of the frame, and null for any string or array.

This decoder creates instances of the same classes, from the same schemas. All lengths are checked against the end of
the frame. Records are not copied. Tagged fields are skipped, because the gateway uses none of those in the requests of
this decoder. The tagged fields of Fetch are sent only between brokers. The two most frequent requests, ShareFetch and
ShareAcknowledge, have a separate decoder (`share_request_decoding`), which reads one tagged field.

The number of elements is limited. A frame of 1 MiB could contain half a million elements of two bytes, which would take
a hundred times more memory as objects. Numbers in arrays count as elements too, because the response may contain an
entry for each partition number of a rejected topic.
"""

import functools
import struct
import uuid
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
from kafka.protocol.schemas import ArrayField, BaseField, StructArrayField, StructField

from sharegroup.gateway.wire.share_request_decoding import decode_share_acknowledge, decode_share_fetch
from sharegroup.kafka_clients.connections.headers import (
    MAX_STRING_BYTES,
    MalformedRequestError,
    RequestHeader,
    UnknownVersionError,
    read_varint,
    skip_tagged_fields,
)
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest

#: Maximum number of elements in a request. Tagged fields are elements, and so are the structs, strings and numbers in
#: arrays. The largest reasonable ShareFetch has 10,000 acknowledgement batches.
MAX_ELEMENTS = 50_000

_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
_NO_UUID = bytes(16)
#: The requests that have a separate decoder, because they are the most frequent and have the most elements.
_OWN: dict[type[ApiMessage], Callable[[memoryview, int, int, int], object]] = {
    ShareFetchRequest: decode_share_fetch,
    ShareAcknowledgeRequest: decode_share_acknowledge,
}


Struct = TypeVar("Struct", bound=DataContainer)


class _Body:
    """The bytes of a request, the number of elements it may still contain, and whether it has tagged fields."""

    __slots__ = ("_elements_left", "data", "has_tagged_fields")

    def __init__(self, data: memoryview) -> None:
        self.data, self.has_tagged_fields = data, False
        self._elements_left = MAX_ELEMENTS

    def spend(self, count: int, what: str) -> None:
        """Count `count` elements of the field `what`. Raises MalformedRequestError if the limit is exceeded."""
        self._elements_left -= count
        if self._elements_left < 0:
            raise MalformedRequestError(f"the limit of {MAX_ELEMENTS} elements is exceeded by the elements in {what}")


#: A function that decodes the value at a position, and returns the value and the position after it. For invalid bytes,
#: it raises MalformedRequestError, struct.error or UnicodeDecodeError.
_Decoder = Callable[[_Body, int], tuple[object, int]]
_StructDecoder = Callable[[_Body, int], tuple[Struct, int]]
#: A function that decodes one or more fields at a position, sets them, and returns the position after them.
_Step = Callable[[_Body, int, DataContainer], int]


def decode_request(message: type[ApiMessage], header: RequestHeader, frame: memoryview) -> Any:
    """Decode a request into an instance of `message`. ShareFetch and ShareAcknowledge are decoded into named tuples.

    Tagged fields are dropped, except that `share_request_decoding` reads one. Raises UnknownVersionError if the version
    is not supported, and MalformedRequestError if the bytes are not such a request.
    """
    return decode_untagged(message, header, frame)[0]


def decode_untagged(message: type[ApiMessage], header: RequestHeader, frame: memoryview) -> tuple[Any, bool]:
    """Decode a request as `decode_request` does. Return (request, whether tagged fields were dropped).

    For ShareFetch and ShareAcknowledge, the second value is always False.
    """
    version = header.api_version
    low, high = message.valid_versions
    if not low <= version <= high:
        raise UnknownVersionError(f"{message.name} version {version} is not supported; supported: {low} to {high}")
    body, own = _Body(frame), _OWN.get(message)
    try:
        start = body_start(message, header, frame)
        if own is not None:
            return own(frame, start, version, MAX_ELEMENTS), False
        return _message(message, version)(body, start)[0], body.has_tagged_fields
    except (MalformedRequestError, struct.error, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"malformed {message.name} of version {version}: {error}") from None


def leading_strings(
    message: type[ApiMessage], header: RequestHeader, frame: memoryview, count: int
) -> tuple[list[str], int]:
    """Return (the first `count` fields of a request, the position of the next field). The fields must be strings.

    Raises MalformedRequestError if the bytes are not such a request.
    """
    decode = _simple("string", "a name", False, message.flexible_version_q(header.api_version))
    body, found = _Body(frame), []
    try:
        position = body_start(message, header, frame)
        for _ in range(count):
            value, position = decode(body, position)
            found.append(str(value))
    except (MalformedRequestError, struct.error, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"malformed {message.name} of version {header.api_version}: {error}") from None
    return found, position


def body_start(message: type[ApiMessage], header: RequestHeader, frame: memoryview) -> int:
    """Return the position in `frame` at which the body starts, after the header and its tagged fields.

    Raises MalformedRequestError if the tagged fields are malformed.
    """
    return skip_tagged_fields(frame, header.end) if message.flexible_version_q(header.api_version) else header.end


@functools.cache
def _message(message: type[ApiMessage], version: int) -> _StructDecoder[ApiMessage]:
    return _struct(message, cast(StructField, message._struct), version, message.flexible_version_q(version))


def _struct(data_class: type[Struct], schema: StructField, version: int, is_flexible: bool) -> _StructDecoder[Struct]:
    """Return a decoder that creates instances of `data_class`, whose fields `schema` defines."""
    steps = list(_steps(schema.untagged_fields(version), version, is_flexible))
    new = object.__new__

    def decode(body: _Body, position: int) -> tuple[Struct, int]:
        item: Any = new(data_class)  # its fields are the schema's
        item._version, item.tags, item.unknown_tags = version, None, None
        for step in steps:
            position = step(body, position, item)
        if is_flexible:
            position = _skip_tagged_fields(body, position)
        return item, position

    return decode


def _skip_tagged_fields(body: _Body, position: int) -> int:
    count, end = read_varint(body.data, position)
    if count == 0:
        return end
    body.spend(count, "tagged fields")
    body.has_tagged_fields = True
    return skip_tagged_fields(body.data, position)


def _steps(fields: list[BaseField], version: int, is_flexible: bool) -> list[_Step]:
    """Return the functions that decode the fields of a struct in order. Consecutive numbers share one function."""
    steps: list[_Step] = []
    numbers: list[BaseField] = []
    for field in fields:
        if field.type_str in _FORMATS:
            numbers.append(field)
            continue
        if numbers:
            steps.append(_numbers(numbers))
            numbers = []
        steps.append(_field(field.name, _decoder(field, version, is_flexible)))
    return [*steps, _numbers(numbers)] if numbers else steps


def _numbers(fields: list[BaseField]) -> _Step:
    names = [field.name for field in fields]
    layout = struct.Struct(">" + "".join(_FORMATS[field.type_str] for field in fields))

    def step(body: _Body, position: int, item: DataContainer) -> int:
        for name, value in zip(names, layout.unpack_from(body.data, position), strict=True):
            setattr(item, name, value)
        return position + layout.size

    return step


def _field(name: str, decode: _Decoder) -> _Step:
    def step(body: _Body, position: int, item: DataContainer) -> int:
        value, position = decode(body, position)
        setattr(item, name, value)
        return position

    return step


def _decoder(field: BaseField, version: int, is_flexible: bool) -> _Decoder:
    is_nullable = field.nullable_for_version_q(version)
    if isinstance(field, StructArrayField):
        element = field.array_of
        return _array(_struct(element.data_class, element, version, is_flexible), field.name, is_nullable, is_flexible)
    if isinstance(field, ArrayField):
        element = field.array_of.type_str
        if element in _FORMATS:
            return _number_array(_FORMATS[element], field.name, is_nullable, is_flexible)
        return _array(_simple(element, field.name, False, is_flexible), field.name, is_nullable, is_flexible)
    if isinstance(field, StructField):
        inner = _struct(field.data_class, field, version, is_flexible)
        return _nullable_struct(inner) if is_nullable else inner
    return _simple(field.type_str, field.name, is_nullable, is_flexible)


def _simple(type_name: str, name: str, is_nullable: bool, is_flexible: bool) -> _Decoder:
    if type_name == "uuid":
        return _uuid
    convert = _CONVERSIONS.get(type_name)
    if convert is None:
        raise TypeError(f"{name} has the unsupported type {type_name}")
    is_string = type_name == "string"
    read_length = _compact_length if is_flexible else _string_length if is_string else _length

    def decode(body: _Body, position: int) -> tuple[object, int]:
        length, position = read_length(body.data, position)
        if length < 0:
            return _null(name, is_nullable, position)
        if is_string and length > MAX_STRING_BYTES:
            raise MalformedRequestError(f"{name} has {length} bytes; the maximum is {MAX_STRING_BYTES}")
        end = position + length
        if end > len(body.data):
            raise MalformedRequestError(f"{name} is cut off by the end of the request")
        return convert(body.data[position:end]), end

    return decode


def _array(element: _Decoder, name: str, is_nullable: bool, is_flexible: bool) -> _Decoder:
    read_length = _compact_length if is_flexible else _length

    def decode(body: _Body, position: int) -> tuple[object, int]:
        count, position = read_length(body.data, position)
        if count < 0:
            return _null(name, is_nullable, position)
        body.spend(count, name)
        items = []
        for _ in range(count):
            item, position = element(body, position)
            items.append(item)
        return items, position

    return decode


def _number_array(letter: str, name: str, is_nullable: bool, is_flexible: bool) -> _Decoder:
    read_length = _compact_length if is_flexible else _length
    size = struct.calcsize(">" + letter)

    def decode(body: _Body, position: int) -> tuple[object, int]:
        count, position = read_length(body.data, position)
        if count < 0:
            return _null(name, is_nullable, position)
        end = position + count * size
        if end > len(body.data):
            raise MalformedRequestError(f"{name} is cut off by the end of the request")
        body.spend(count, name)
        return list(struct.unpack_from(f">{count}{letter}", body.data, position)), end

    return decode


def _uuid(body: _Body, position: int) -> tuple[uuid.UUID | None, int]:
    """Decode a UUID. Return (UUID, position after it). A UUID of all zeros is returned as None, as in kafka-python."""
    value = bytes(body.data[position : position + 16])
    if len(value) < 16:
        raise MalformedRequestError("a topic id is cut off by the end of the request")
    return None if value == _NO_UUID else uuid.UUID(bytes=value), position + 16


def _nullable_struct(decode: _StructDecoder[Struct]) -> _Decoder:
    """Return a decoder for a struct that may be null. A byte precedes the struct; it is negative for null (KIP-893)."""

    def decode_or_null(body: _Body, position: int) -> tuple[Struct | None, int]:
        (is_there,) = _INT8.unpack_from(body.data, position)
        return decode(body, position + 1) if is_there >= 0 else (None, position + 1)

    return decode_or_null


def _text(data: memoryview) -> str:
    return str(data, "utf-8")


#: {type in the schema: function that converts its bytes}. Records are not copied, because they may be large.
_CONVERSIONS: dict[str, Callable[[memoryview], object]] = {
    "string": _text,
    "bytes": bytes,
    "records": lambda data: data,
}


def _null(name: str, is_nullable: bool, position: int) -> tuple[None, int]:
    if not is_nullable:
        raise MalformedRequestError(f"{name} must not be null")
    return None, position


def _compact_length(data: memoryview, position: int) -> tuple[int, int]:
    length, position = read_varint(data, position)
    return length - 1, position


def _length(data: memoryview, position: int) -> tuple[int, int]:
    return int(_INT32.unpack_from(data, position)[0]), position + 4


def _string_length(data: memoryview, position: int) -> tuple[int, int]:
    return int(_INT16.unpack_from(data, position)[0]), position + 2
