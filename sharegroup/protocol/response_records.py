"""The records of the response topic, which have one or several response rows.

A micro-batch may have a thousand responses to one gateway, and a record costs producer, brokers and consumer more than
a row. A requester whose `reply_to` ends with `LIST_SUFFIX` accepts records that are a JSON array of rows.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sharegroup.protocol.json_text import from_json, to_json

LIST_SUFFIX = "[]"
#: Maximum characters of an array: a few hundred rows, and far below the default message size limit of brokers.
_MAX_CHARACTERS = 200_000


def to_records(responses: Iterable[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """Return (key, value) of the records for response rows, without rows that have no `reply_to`.

    Rows with the same key keep their order.
    """
    records: list[tuple[str, bytes]] = []
    lists: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for response in responses:
        key, text = response["reply_to"], to_json(response)
        if not key.endswith(LIST_SUFFIX):
            if key:
                records.append((key, text.encode()))
            continue
        if lists.get(key) and sizes[key] + len(text) > _MAX_CHARACTERS:
            records.append((key, _to_array(lists.pop(key))))
        if key not in lists:
            lists[key], sizes[key] = [], 0
        lists[key].append(text)
        sizes[key] += len(text)
    return [*records, *((key, _to_array(texts)) for key, texts in lists.items())]


def decode_rows(value: bytes) -> list[Any]:
    """Return the JSON values of the rows of a record. Raise ValueError."""
    content = from_json(value)
    return content if isinstance(content, list) else [content]


def to_record(response: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return (key, value) of a record with one row."""
    return response["reply_to"], to_json(response).encode()


def _to_array(texts: list[str]) -> bytes:
    return (texts[0] if len(texts) == 1 else f"[{','.join(texts)}]").encode()
