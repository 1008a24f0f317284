"""Conversion between response rows and Kafka records of the response topic. A record contains one or several rows.

A micro-batch may create a thousand responses to one gateway. One record with several rows costs less than one record
per row, for the producer, the brokers and the consumer. If the `reply_to` of a requester ends with `LIST_SUFFIX`, the
requester accepts records that are a JSON array of rows.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sharegroup.protocol.json_text import from_json, to_json

LIST_SUFFIX = "[]"
#: Maximum number of characters in an array of rows. A few hundred rows fit into it. It is far below the default message
#: size limit of brokers.
_MAX_CHARACTERS = 200_000


def to_records(responses: Iterable[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
    """Convert response rows to records, as (key, value). Rows with an empty `reply_to` are dropped.

    Several rows for a requester that accepts lists (`LIST_SUFFIX`) are combined into one record, up to a maximum size.
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
    """Return the rows of a record as JSON values. Raises ValueError if the record is not JSON."""
    content = from_json(value)
    return content if isinstance(content, list) else [content]


def to_record(response: Mapping[str, Any]) -> tuple[str, bytes]:
    """Convert one response row to a record, as (key, value)."""
    return response["reply_to"], to_json(response).encode()


def _to_array(texts: list[str]) -> bytes:
    return (texts[0] if len(texts) == 1 else f"[{','.join(texts)}]").encode()
