"""The handover as a small local file: one line of JSON for each change.

The writer rewrites the file when it starts, and when the appended changes would exceed a limit. The limit is twice the
size of the whole handover, or 1 MB if that is more. A reader that starts late therefore reads a file of limited size,
and the written bytes are proportional to the changes. A rewritten file replaces the old one atomically. A reader leaves
an incomplete line until the rest of it is written.
"""

import os
from pathlib import Path
from typing import BinaryIO

from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.protocol.json_text import from_json, to_json

#: The file is rewritten only when at least this many bytes of changes were appended.
_LEAST_CHANGES = 1_000_000


class HandoverFileWriter:
    """Writes the handover file, in the driver."""

    def __init__(self, path: str, least_changes: int = _LEAST_CHANGES) -> None:
        self._path, self._least_changes = Path(path), least_changes
        self._whole = Handover()
        self._room = 0

    def write(self, change: HandoverChange) -> None:
        changed = self._whole.changes_in(change)
        self._whole.apply(changed)
        line = _encode(changed)
        if self._room < len(line):
            self._rewrite()
        elif any(changed[:-1]):
            self._room -= len(line)
            with self._path.open("ab") as file:
                file.write(line)

    def _rewrite(self) -> None:
        whole = _encode(self._whole.as_change())
        scratch = self._path.with_suffix(".new")
        scratch.write_bytes(whole)
        scratch.replace(self._path)
        self._room = max(self._least_changes, 2 * len(whole))


class HandoverFileReader:
    """Reads the handover file, in the source's process. It keeps the file open, and detects a new file by the inode."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file: BinaryIO | None = None
        self._rest = b""
        self._handover = Handover()

    def read(self) -> Handover:
        """Return the current handover, which is empty if there is no file.

        Each call returns the same object, with new changes applied, until the file is rewritten.
        """
        try:
            if self._file is None or not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                self._open()
        except FileNotFoundError:
            self.close()
            return self._handover
        assert self._file is not None
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self._handover.apply(_decode(line))
        return self._handover

    def close(self) -> None:
        """Close the file, and discard the handover."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest, self._handover = None, b"", Handover()

    def _open(self) -> None:
        file = self._path.open("rb")
        self.close()
        self._file = file


def _encode(change: HandoverChange) -> bytes:
    return to_json(change).encode() + b"\n"


def _decode(line: bytes) -> HandoverChange:
    deadlines, waiting, positions, clock, *leases = from_json(line)
    read = {int(partition): offset for partition, offset in positions.items()}
    return HandoverChange(deadlines, waiting, read, None if clock is None else ClockReading(*clock), *leases)
