"""docs/compatibility.md as tests read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")


class Api(NamedTuple):
    """A row of the table of APIs. `gateway` is None for an API that clients are not offered."""

    key: int
    name: str
    kafka: tuple[int, int]
    gateway: tuple[int, int] | None
    who: str

    @property
    def handler(self) -> str | None:
        """The file of the gateway's own handler, below sharegroup/gateway."""
        found = re.fullmatch(r"the gateway: \[(\S+)\]\(\.\./sharegroup/gateway/\1\)", self.who)
        return found[1] if found else None


def section(heading: str) -> str:
    """The text below a heading of the page."""
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def table(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    rows = [line for line in section(heading).splitlines() if line.startswith("| ")]
    return [row.strip("| ").split(" | ") for row in rows[2:]]


def apis() -> list[Api]:
    """The table of APIs."""
    return [
        Api(int(key), name, _range(kafka), None if gateway == "none" else _range(gateway), who)
        for key, name, kafka, gateway, who in table("APIs")
    ]


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)
