"""The command `sharegroup sql`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharegroup.cli.options.output import warn
from sharegroup.errors import ShareGroupError
from sharegroup.ui.data.payloads import escape

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table


def sql(
    tables: Annotated[str, typer.Argument(help="Path of the tables (tables.path in the configuration).")],
    statement: Annotated[
        str | None, typer.Argument(help="SQL statement. Default: list the tables and their columns.")
    ] = None,
) -> None:
    """Query the job's tables with SQL, without Spark."""
    from rich.console import Console

    # Output for a program is not cut to the width of a terminal.
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_tables() if statement is None else _rows(tables, statement))


def _rows(tables: str, statement: str) -> Table:
    from sharegroup.storage.reading.sql import run_query

    try:
        return to_table(run_query(tables, statement))
    except ShareGroupError as error:
        warn(str(error))
        raise typer.Exit(1) from None


def to_table(rows: pa.Table) -> Table:
    """Return the rows as a table for the terminal."""
    return _table(rows.column_names, [list(row.values()) for row in rows.to_pylist()])


def _tables() -> Table:
    from sharegroup.storage.schemas import ALL_TABLES

    return _table(["table", "columns"], [[spec.name, ", ".join(spec.schema.names)] for spec in ALL_TABLES])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(column))
    for row in rows:
        # Clients choose the ids in the tables. Ids must not control the terminal or be read as markup of rich.
        table.add_row(*(Text(escape(_text(value), kept="")) for value in row))
    return table


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return f"{value:,}" if isinstance(value, int) else str(value)
