"""Damages files of tables on a local disk as a power loss does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

#: What may happen to a file that was not on the disk yet.
TORN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda text: b"",
    "half": lambda text: text[: len(text) // 2],
    "first line": lambda text: text.split(b"\n")[0] + b"\n",
    "zeros": lambda text: bytes(len(text)),
}


def entries(table: Path) -> list[Path]:
    """Return the log entries, newest last."""
    return sorted(table.joinpath("_delta_log").glob("*.json"))


def tear(path: Path, how: str) -> None:
    """Write what is left of a file."""
    path.write_bytes(TORN[how](path.read_bytes()))


def data_files(table: Path, entry: Path) -> list[Path]:
    """Return the data files that a log entry adds."""
    actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
    return [table / unquote(action["add"]["path"]) for action in actions if "add" in action]


def lose(table: Path, count: int) -> None:
    """Lose the newest entries with all their files, without a trace."""
    found = entries(table)
    for entry in found[len(found) - count :]:
        for path in data_files(table, entry):
            path.unlink()
        entry.unlink()
