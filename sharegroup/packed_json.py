"""JSON as one short text, for logs that keep it: rows repeat their keys, and packed they are a tenth of their size."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from sharegroup.json_text import from_json


def pack_text(text: str) -> str:
    """The text, compressed, in characters that JSON need not escape."""
    return base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def unpack_json(packed: str) -> Any:
    """What the JSON text that was packed says."""
    return from_json(zlib.decompress(base64.b64decode(packed)))
