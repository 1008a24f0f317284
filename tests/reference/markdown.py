"""Markdown that is written by a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

GENERATED = "This page is generated from the code: `python -m tests.reference` writes it."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; vertical bars inside of cells are escaped."""
    return "\n".join([_row(head), _row(["---"] * len(head)), *map(_row, rows)])


def with_rows(page: str, tables: Mapping[str, Iterable[Sequence[str]]]) -> str:
    """Replace the rows of the first table below each heading of the second level; ValueError if there is none."""
    for heading, rows in tables.items():
        before, found, after = page.partition(f"\n## {heading}\n")
        introduction, bar, rest = after.partition("| --- |")
        if not found or not bar or "\n## " in introduction:
            raise ValueError(f"there is no table below the heading {heading}")
        dashes, _, old_rows = rest.partition("\n")
        remainder = old_rows.partition("\n\n")[2]
        new_rows = "".join(f"{_row(row)}\n" for row in rows)
        page = f"{before}{found}{introduction}{bar}{dashes}\n{new_rows}" + (f"\n{remainder}" if remainder else "")
    return page


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
