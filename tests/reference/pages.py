"""Every generated page with its current text."""

from __future__ import annotations

from pathlib import Path

from tests.reference import command_line, configs, metrics, row_fields, tables
from tests.reference.markdown import with_rows

DOCS = Path(__file__).parents[2] / "docs"


def pages() -> dict[Path, str]:
    """Return {path: text} of all pages; the text around the tables of hand-written pages is taken from the files."""
    return {
        DOCS / "reference" / "configs.md": configs.page(),
        DOCS / "reference" / "row_fields.md": row_fields.page(),
        DOCS / "reference" / "cli.md": command_line.page(),
        **{DOCS / name: with_rows(_text(name), found) for name, found in _IN_PLACE.items()},
    }


#: {page: {heading: rows of the table}}
_IN_PLACE = {"tables.md": tables.by_heading(), "metrics.md": metrics.by_heading()}


def _text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")
