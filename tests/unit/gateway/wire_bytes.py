"""Bytes of the protocol, made by hand."""

from __future__ import annotations


def framed(frame: bytes) -> bytes:
    """The frame with its length."""
    return len(frame).to_bytes(4, "big") + frame


def varint(value: int) -> bytes:
    """An unsigned number of variable length."""
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])
