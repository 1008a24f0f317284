"""The crash matrix of sharegroup/README.md names a test in each row, and the tests are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _rows() -> list[list[str]]:
    readme = (ROOT / "sharegroup" / "README.md").read_text(encoding="utf-8")
    section = readme.split("\n## The crash matrix\n")[1].split("\n## ")[0]
    return [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]


def test_each_row_names_a_test_that_is_there() -> None:
    rows = _rows()
    assert len(rows) > 30
    for row in rows:
        assert len(row) == 5, row
        named = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[4].strip())
        assert named, row[4]
        path, name = named.groups()
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {name}"
