"""Encoding of protocol primitives by hand."""

from __future__ import annotations


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
