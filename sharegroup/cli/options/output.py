"""Output of commands: tables in the format of Kafka's tools, or the same rows as JSON or YAML."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from sharegroup.ui.data.payloads import escape
from sharegroup.ui.words import moment

MIN_WIDTH = 15
MISSING = "-"

Row = Mapping[str, Any]


class OutputFormat(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="Output format; json and yaml are for programs.")
]


class Column(NamedTuple):
    """A column of a table: its heading, the key of its value in a row, and its minimum width.

    `show` converts a value to the text in the table.
    """

    head: str
    key: str
    width: int = MIN_WIDTH
    show: Callable[[Any], str] = str


class Output:
    """Prints the results of a command in the format of `--output`: as a table, JSON or YAML."""

    def __init__(self, kind: OutputFormat = OutputFormat.TABLE) -> None:
        self.kind = kind

    def tables(self, columns: Sequence[Column], tables: Iterable[Sequence[Row]], *, blank_line: bool = True) -> None:
        """Print several tables with the same columns. `blank_line` prints an empty line before each table.

        Tables without rows are left out. In JSON and YAML, the rows of all tables are printed as one list.
        """
        if self.kind is not OutputFormat.TABLE:
            self.document([{c.key: row.get(c.key) for c in columns} for rows in tables for row in rows])
            return
        for rows in tables:
            if rows:
                typer.echo(("\n" if blank_line else "") + table_text(columns, rows))

    def document(self, value: Any) -> None:
        """Print a value as JSON or YAML. Must not be called for the format TABLE."""
        if self.kind is OutputFormat.JSON:
            typer.echo(json.dumps(value, indent=2))
        else:
            import yaml

            typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)

    def print_line(self, text: str) -> None:
        """Print a line of text. In JSON and YAML, print nothing."""
        if self.kind is OutputFormat.TABLE:
            print_line(text)


def print_line(text: str) -> None:
    """Print a line. Control characters are escaped, because names that clients chose must not control the terminal."""
    typer.echo(escape(text))


def warn(text: str) -> None:
    """Print a line to standard error, with control characters escaped."""
    typer.echo(escape(text), err=True)


def table_text(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """Return a table as left-aligned text with headings. Missing values are `-`; control characters are escaped."""
    lines = [[column.head for column in columns]]
    lines += [[_shown(column, row.get(column.key)) for column in columns] for row in rows]
    widths = [max(column.width, *(len(line[number]) for line in lines)) for number, column in enumerate(columns)]
    return "\n".join(
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def time_text(at: datetime | int | None) -> str | None:
    """Return a datetime, or ms since 1970, as text in UTC with milliseconds. Return None if `at` is None."""
    return None if at is None else moment(at, "T", "milliseconds", "Z")


def _shown(column: Column, value: Any) -> str:
    return MISSING if value is None else escape(column.show(value), kept="")
