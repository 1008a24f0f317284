"""Rows that are frozen dataclasses, as JSON objects: the type, and all fields in their order."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of rows, in order: looked up once, as every row that is written asks."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def row_values(row: Any) -> dict[str, Any]:
    """The JSON object of a row."""
    return {"type": row.type} | {name: getattr(row, name) for name in field_names(type(row))}
