"""SQL over the job's tables without Spark: a second instead of ten, from any shell.

    python -m sharegroup.testkit.table_sql data/tables                      # the tables, and their columns
    python -m sharegroup.testkit.table_sql data/tables "SELECT * FROM share_groups"

The dialect is DataFusion's, which delta-rs brings. For the views of the cookbook, which are Spark's, use Spark.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from rich.console import Console
from rich.table import Table

from sharegroup.command_parser import CommandParser
from sharegroup.tables.schemas import ALL_TABLES, table_path


def query(tables_path: str, statement: str) -> pa.Table:
    """The rows of a statement over the tables at their newest versions. Raises DeltaError."""
    builder = QueryBuilder()
    for spec in ALL_TABLES:
        builder = builder.register(spec.name, DeltaTable(table_path(tables_path, spec)))
    return pa.table(builder.execute(statement).read_all())


def shown(rows: pa.Table) -> Table:
    """The rows as a table for the terminal."""
    table = Table(*rows.column_names)
    for row in rows.to_pylist():
        table.add_row(*(_text(value) for value in row.values()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _tables() -> Table:
    table = Table("table", "columns")
    for spec in ALL_TABLES:
        table.add_row(spec.name, ", ".join(spec.schema.names))
    return table


def main(command_line: list[str]) -> int:
    """Print what was asked for; returns the exit code."""
    parser = CommandParser(prog="python -m sharegroup.testkit.table_sql", description="SQL over the tables.")
    parser.add_argument("tables", help="tables.path of the job's configuration")
    parser.add_argument("statement", nargs="?", help="the SQL; without it, the tables and their columns")
    arguments = parser.parse_args(command_line)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        console.print(_tables() if arguments.statement is None else shown(query(arguments.tables, arguments.statement)))
    except DeltaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
