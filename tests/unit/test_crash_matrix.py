"""Each row of docs/crash-matrix.md names a test, and that test exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HEADS = ("| what fails |", "| --- |")


def _rows() -> list[list[str]]:
    page = (ROOT / "docs" / "crash-matrix.md").read_text(encoding="utf-8")
    return [
        line.strip("|").split(" | ")
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith(_HEADS)
    ]


def test_each_row_names_an_existing_test() -> None:
    rows = _rows()
    assert len(rows) > 60
    for row in rows:
        assert len(row) == 5, row
        named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[4].strip())
        assert named, row[4]
        path, name = named.groups()
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {name}"
