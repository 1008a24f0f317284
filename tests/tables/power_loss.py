"""A local disk that keeps, at a power loss, only what was synced.

A file exists afterwards if its folder was synced since the file was created. It has the content of its own last sync,
and is empty if it was never synced. A removed file stays until its folder is synced. This is what POSIX guarantees;
most file systems keep more.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


class PowerLoss:
    """Records what is synced below `root`; the disk may be lost any number of times."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._files: dict[Path, bytes] = {}
        self._folders: dict[Path, frozenset[str]] = {root: frozenset()}
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self._synced)

    def _synced(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == self._root or self._root in path.parents:
            if path.is_dir():
                self._folders[path] = frozenset(child.name for child in path.iterdir())
            else:
                self._files[path] = path.read_bytes()

    def left_in(self, root: Path) -> Path:
        """Write what a power loss leaves to an empty folder, and return the folder."""
        shutil.rmtree(root, ignore_errors=True)
        self._write(self._root, root)
        return root

    def _write(self, folder: Path, to: Path) -> None:
        to.mkdir()
        for name in self._folders.get(folder, ()):
            path = folder / name
            if path in self._folders or path.is_dir():
                self._write(path, to / name)
            else:
                (to / name).write_bytes(self._files.get(path, b""))
