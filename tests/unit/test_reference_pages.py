"""The generated reference pages are current, and the generator replaces tables where it should."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.reference.markdown import with_rows
from tests.reference.pages import DOCS, pages
from tests.reference.row_fields import json_type


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(DOCS)))
def test_a_generated_page_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python -m tests.reference"


def test_rows_replace_those_of_the_first_table_below_their_heading() -> None:
    page = "# Page\n\n## One\n\nText.\n\n| a |\n| --- |\n| 1 |\n\nMore.\n\n## Two\n\n| b |\n| --- |\n| 2 |\n| 3 |\n"
    changed = with_rows(page, {"One": [("4",), ("x|y",)], "Two": [("5",)]})
    assert changed == page.replace("| 1 |", "| 4 |\n| x\\|y |").replace("| 2 |\n| 3 |", "| 5 |")


@pytest.mark.parametrize("page", ["# Page\n", "\n## One\n\nText.\n", "\n## One\n\nText.\n\n## Two\n\n| b |\n| --- |\n"])
def test_a_section_without_a_table_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match="heading One"):
        with_rows(page, {"One": []})


class Range(NamedTuple):
    first: int
    last: int


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (str, "string"),
        (int | None, "integer or null"),
        (tuple[Range, ...], "[[integer, integer], ...]"),
        (tuple[str, int], "[string, integer]"),
        (dict[str, tuple[bool, ...]], "{string: [boolean, ...]}"),
    ],
)
def test_a_type_is_written_as_in_json(kind: object, written: str) -> None:
    assert json_type(kind) == written
