"""Tables for people, as Kafka's tools print them, or the same rows as JSON or YAML for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from sharegroup.ui.data.payloads import visible
from sharegroup.ui.words import moment

MIN_WIDTH = 15
MISSING = "-"

Row = Mapping[str, Any]


class OutputFormat(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or for machines.")]


class Column(NamedTuple):
    """A column's head, the name of its value in a row, its least width, and how a value is shown in a table."""

    head: str
    key: str
    width: int = MIN_WIDTH
    show: Callable[[Any], str] = str


class Output:
    """Where a command says what it found. `rows` come in order; `say` is for people only."""

    def __init__(self, kind: OutputFormat = OutputFormat.TABLE) -> None:
        self.kind = kind

    def tables(self, columns: Sequence[Column], tables: Iterable[Sequence[Row]], *, blank_line: bool = True) -> None:
        """Several tables with the same columns; one list of all rows for machines. A table without rows is left out."""
        if self.kind is not OutputFormat.TABLE:
            self.document([{c.key: row.get(c.key) for c in columns} for rows in tables for row in rows])
            return
        for rows in tables:
            if rows:
                typer.echo(("\n" if blank_line else "") + table_text(columns, rows))

    def document(self, value: Any) -> None:
        """A value for machines."""
        if self.kind is OutputFormat.JSON:
            typer.echo(json.dumps(value, indent=2))
        else:
            import yaml

            typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)

    def say(self, text: str) -> None:
        """A line for people."""
        if self.kind is OutputFormat.TABLE:
            say(text)


def say(text: str) -> None:
    """A line for people. Names may be anybody's: control characters, which a terminal would obey, are escaped."""
    typer.echo(visible(text))


def warn(text: str) -> None:
    """A line about what is wrong, or missing, to standard error; see `say`."""
    typer.echo(visible(text), err=True)


def table_text(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """Head and rows, left-aligned, a blank between columns; a missing value is `-`, control characters are escaped."""
    lines = [[column.head for column in columns]]
    lines += [[_shown(column, row.get(column.key)) for column in columns] for row in rows]
    widths = [max(column.width, *(len(line[number]) for line in lines)) for number, column in enumerate(columns)]
    return "\n".join(
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def time_text(at: datetime | int | None) -> str | None:
    """Return a time, or ms since 1970, in UTC with milliseconds; None for None."""
    return None if at is None else moment(at, "T", "milliseconds", "Z")


def _shown(column: Column, value: Any) -> str:
    return MISSING if value is None else visible(column.show(value), kept="")
