"""The hand-over as a small local file: one line of JSON for each change.

The writer begins the file anew when it starts, and again when the changes have become more than the whole: so a reader
that starts late reads a bounded file, and what is written costs what changed. A file that is begun anew takes the old
one's place in one step; of a line that is half written, or was when its writer died, a reader sees nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from sharegroup.job.clock.hand_over import HandOver, HandOverChange
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.protocol.json_text import from_json, to_json

#: The file is not begun anew for fewer bytes of changes than this.
_LEAST_CHANGES = 1_000_000


class HandOverFileWriter:
    """The driver's side."""

    def __init__(self, path: str, least_changes: int = _LEAST_CHANGES) -> None:
        self._path, self._least_changes = Path(path), least_changes
        self._whole = HandOver()
        self._room = 0

    def write(self, change: HandOverChange) -> None:
        """Tell what has changed."""
        news = self._whole.news_of(change)
        self._whole.apply(news)
        line = _encode(news)
        if self._room < len(line):
            self._begin_anew()
        elif any(news):
            self._room -= len(line)
            with self._path.open("ab") as file:
                file.write(line)

    def _begin_anew(self) -> None:
        whole = _encode(self._whole.whole())
        scratch = self._path.with_suffix(".new")
        scratch.write_bytes(whole)
        scratch.replace(self._path)
        self._room = max(self._least_changes, 2 * len(whole))


class HandOverFileReader:
    """The source's side. The file is held open: what took its place is told apart from it by its inode."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file: BinaryIO | None = None
        self._rest = b""
        self._told = HandOver()

    def read(self) -> HandOver:
        """What is told so far: the same object at each call, until the file is begun anew; empty without a file."""
        try:
            if self._file is None or not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                self._open()
        except FileNotFoundError:
            self.close()
            return self._told
        assert self._file is not None
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self._told.apply(_decode(line))
        return self._told

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest, self._told = None, b"", HandOver()

    def _open(self) -> None:
        file = self._path.open("rb")
        self.close()
        self._file = file


def _encode(change: HandOverChange) -> bytes:
    return to_json(change).encode() + b"\n"


def _decode(line: bytes) -> HandOverChange:
    deadlines, waiting, positions, clock = from_json(line)
    read = {int(partition): offset for partition, offset in positions.items()}
    return HandOverChange(deadlines, waiting, read, None if clock is None else ClockReading(*clock))
