"""Conversion of rows, which are frozen dataclasses, to JSON objects with the type and all fields in order."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the field names of a class of rows, in order. They are cached, because every encoded row uses them."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def row_values(row: Any) -> dict[str, Any]:
    """Return the JSON object of a row."""
    return {"type": row.type} | {name: getattr(row, name) for name in field_names(type(row))}
