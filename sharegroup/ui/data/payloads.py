"""Converts keys and values of records to readable text. No I/O."""

import json
from typing import NamedTuple

#: Maximum bytes of a payload that are shown.
MOST_BYTES = 65_536
FORMATS = ("text", "json", "hex")
_PER_LINE = 16


class PayloadText(NamedTuple):
    """A key or value of a record as text.

    `note` states that the text is cut or is not JSON as requested. Otherwise it is empty.
    """

    text: str
    note: str


def payload_text(payload: bytes | None, form: str) -> PayloadText:
    """Return a key or value as text in the format `form`, one of `FORMATS`. Other values of `form` mean "text"."""
    if payload is None:
        return PayloadText("null", "")
    part, note = payload[:MOST_BYTES], ""
    if len(payload) > MOST_BYTES:
        note = f"the first {MOST_BYTES:,} of {len(payload):,} bytes"
    if form == "hex":
        return PayloadText(_hex(part), note)
    if form == "json" and not note:
        try:
            return PayloadText(escape(json.dumps(json.loads(payload), indent=2, ensure_ascii=False)), "")
        except (ValueError, RecursionError):
            note = "not JSON, shown as text"
    return PayloadText(escape(part.decode("utf-8", "backslashreplace")), note)


def escape(text: str, kept: str = "\n\t") -> str:
    """Escape control characters, and characters that change the text direction, except those in `kept`."""
    return "".join(c if c in kept or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _hex(payload: bytes) -> str:
    lines = []
    for at in range(0, len(payload), _PER_LINE):
        part = payload[at : at + _PER_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
