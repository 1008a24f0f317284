"""docs/reference/row_fields.md: the fields of each type of row, with their JSON types and defaults."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from sharegroup.protocol.rows.broadcasts import Broadcast
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import SharePartitionResponse
from tests.reference.markdown import GENERATED, table

_INTRODUCTION = f"""# Row fields

{GENERATED}

This page lists the fields of each type of row in the three topics between members, gateways and the job.
[The rows of the three topics](../rows.md) describes what the fields mean, and which of them may be left out.
"""
_SECTIONS: Mapping[str, Any] = {
    "Requests to the group coordinator": ShareGroupRequest,
    "Requests to a share-partition": SharePartitionRequest,
    "Requests to all share-partitions": RenewLeasesRequest,
    "Responses about a group": ShareGroupResponse,
    "Responses about a share-partition": SharePartitionResponse,
    "Rows for every reader": Broadcast,
}
_JSON_TYPES = {str: "string", int: "integer", bool: "boolean", Any: "any", type(None): "null"}


def page() -> str:
    """Return the page."""
    lines = [_INTRODUCTION]
    for title, union in _SECTIONS.items():
        lines += [f"## {title}", ""]
        for kind in get_args(union) or (union,):
            lines += _rows_of(kind)
    return "\n".join(lines).rstrip() + "\n"


def _rows_of(kind: type[Any]) -> Iterator[str]:
    # A class without a type of its own is the response to a row of an unknown type.
    name = vars(kind).get("type")
    yield from (f"### {f'`{name}`' if isinstance(name, str) else 'Any other type'}", "")
    hints = get_type_hints(kind)
    described = [(f"`{each.name}`", json_type(hints[each.name]), _default(each)) for each in fields(kind)]
    yield from (table(("field", "type", "default"), described) if described else "No fields.", "")


def json_type(kind: Any) -> str:
    """Return how a value of a Python type is written in JSON, such as `[[integer, integer], ...]`."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(json_type(each) for each in get_args(kind))
    if fields_of := getattr(kind, "_fields", None):
        hints = get_type_hints(kind)
        return f"[{', '.join(json_type(hints[name]) for name in fields_of)}]"
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        many = len(arguments) == 2 and arguments[1] is Ellipsis
        return f"[{json_type(arguments[0])}, ...]" if many else f"[{', '.join(map(json_type, arguments))}]"
    if get_origin(kind) in (dict, Mapping):
        return f"{{{json_type(arguments[0])}: {json_type(arguments[1])}}}"
    return _JSON_TYPES[kind]


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return "`{}`"
    if field.default is MISSING:
        return ""
    values = {None: "null", (): "[]", "": '""', False: "false"}
    by_text = {repr(value): text for value, text in values.items()}
    return f"`{by_text.get(repr(field.default), field.default)}`"
