"""Encoded requests, and protocol primitives that are encoded by hand."""

from __future__ import annotations

from typing import Any

from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections.headers import encode_request, read_header


def request_frame(body: Any, version: int) -> memoryview:
    """Return a request as a client sends it, without its length."""
    return memoryview(bytes(encode_request(body, version, 7, "client")))[4:]


def decode(message: Any, frame: bytes | bytearray | memoryview) -> Any:
    """Decode the request in a frame without its length."""
    view = memoryview(frame)
    return decode_request(message, read_header(view), view)


def framed(frame: bytes) -> bytes:
    """Return a frame with its length."""
    return len(frame).to_bytes(4, "big") + frame


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])
