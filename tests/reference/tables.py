"""docs/tables.md: the columns of each Delta table."""

from __future__ import annotations

import pyarrow as pa

from sharegroup.storage.schemas import ALL_TABLES

_SQL_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "string": "STRING",
    "date32[day]": "DATE",
}


def by_heading() -> dict[str, list[tuple[str, ...]]]:
    """Return the columns of each table by the heading of its section: name, type and meaning."""
    return {f"`{spec.name}`": [_column(field) for field in spec.schema] for spec in ALL_TABLES}


def _column(field: pa.Field) -> tuple[str, ...]:
    return f"`{field.name}`", f"`{sql_type(field.type)}`", field.metadata[b"comment"].decode()


def sql_type(kind: pa.DataType) -> str:
    """Return the type as Spark SQL writes it."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {sql_type(field.type)}' for field in kind)}>"
    return _SQL_TYPES[str(kind)]
