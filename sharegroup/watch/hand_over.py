"""What the driver tells the Python source, which is another process of the driver: one small local file.

`foreachBatch` writes it after each batch; the source reads it before each poll. Losing it costs nothing: after a start
the source ticks every key once, and the first batch writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class HandOver:
    """`deadlines`: when a key wants a tick (ms); `waiting`: keys where demands stand; `positions`: next unread offset
    of each request partition, all batches before it being committed."""

    deadlines: Mapping[str, int] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    positions: Mapping[int, int] = field(default_factory=dict)


class HandOverFile:
    """The file; a write replaces it at once, so that a reader sees all of it or the one before."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int] | None = None
        self._last = HandOver()

    def write(self, content: HandOver) -> None:
        """Replace what the file says, at once and as a whole."""
        row = asdict(content) | {"waiting": sorted(content.waiting)}
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(row))
        scratch.replace(self._path)

    def read(self) -> HandOver:
        """The file's content, or an empty one while there is no file."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                row = json.loads(self._path.read_text())
                positions = {int(partition): offset for partition, offset in row["positions"].items()}
                self._last = HandOver(row["deadlines"], frozenset(row["waiting"]), positions)
                self._stamp = stamp
        except FileNotFoundError:
            return HandOver()
        return self._last


@dataclass
class BatchMemory:
    """The driver's side: what all batches so far have said, by key."""

    deadlines: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)

    def update(self, deadlines: Mapping[str, int | None], waiting: Mapping[str, bool]) -> None:
        """Take in one batch's words; a key without a deadline any more is forgotten."""
        for key, deadline in deadlines.items():
            if deadline is None:
                self.deadlines.pop(key, None)
            else:
                self.deadlines[key] = deadline
        for key, waits in waiting.items():
            (self.waiting.add if waits else self.waiting.discard)(key)

    def hand_over(self, positions: Mapping[int, int]) -> HandOver:
        """What to write to the file."""
        return HandOver(dict(self.deadlines), frozenset(self.waiting), dict(positions))
