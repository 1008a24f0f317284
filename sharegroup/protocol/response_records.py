"""The records that carry response rows: several rows in one, for those who read them so.

A micro-batch may answer a gateway a thousand times, and a record costs its producer, the brokers and its reader more
than its row does. Who names itself with `LISTS` at the end (`reply_to`) takes a JSON array of rows as well as a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sharegroup.protocol.json_text import from_json, to_json

LISTS = "[]"
#: Characters of a list: far below the size that brokers take by default, and enough for some hundred rows.
_MOST_CHARACTERS = 200_000


def records_of(responses: Iterable[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """(key, value) of the records for response rows, in the rows' order for each key; rows without a `reply_to` are
    left out."""
    records: list[tuple[str, bytes]] = []
    lists: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for response in responses:
        key, text = response["reply_to"], to_json(response)
        if not key.endswith(LISTS):
            if key:
                records.append((key, text.encode()))
            continue
        if lists.get(key) and sizes[key] + len(text) > _MOST_CHARACTERS:
            records.append((key, _listed(lists.pop(key))))
        if key not in lists:
            lists[key], sizes[key] = [], 0
        lists[key].append(text)
        sizes[key] += len(text)
    return [*records, *((key, _listed(texts)) for key, texts in lists.items())]


def rows_of(value: bytes) -> list[Any]:
    """The rows that a record carries, as JSON says them; raises ValueError."""
    said = from_json(value)
    return said if isinstance(said, list) else [said]


def as_record(response: Mapping[str, Any]) -> tuple[str, bytes]:
    """(key, value) of a record with this row alone."""
    return response["reply_to"], to_json(response).encode()


def _listed(texts: list[str]) -> bytes:
    return (texts[0] if len(texts) == 1 else f"[{','.join(texts)}]").encode()
