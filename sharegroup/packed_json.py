"""JSON as one short text, for logs that keep it: rows repeat their keys, and packed they are a tenth of their size."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from sharegroup.json_text import from_json

#: Begins what is packed in base64; earlier versions packed in base85, which has no such character and takes 40 times as
#: long.
_BASE64 = ":"

__all__ = ["pack_text", "unpack_json"]


def pack_text(text: str) -> str:
    """The text, compressed, in characters that JSON need not escape."""
    return _BASE64 + base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def unpack_json(packed: str) -> Any:
    """What the JSON text that was packed, by this or an earlier version, says."""
    is_base64 = packed.startswith(_BASE64)
    data = base64.b64decode(packed[len(_BASE64) :]) if is_base64 else base64.b85decode(packed)
    return from_json(zlib.decompress(data))
