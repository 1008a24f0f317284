"""What was read from outside and is read again when it changes, while the gateway runs.

What is new and cannot be read changes nothing: what was read before stays in force, and one line says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sharegroup.errors import InvalidConfigError

logger = logging.getLogger(__name__)

T = TypeVar("T")
Kept_co = TypeVar("Kept_co", covariant=True)

#: (modification time in ns, size, inode) of each file, None for one that is not there.
_Looks = tuple[tuple[int, int, int] | None, ...]


class Kept(Protocol[Kept_co]):
    """Something that may change."""

    @property
    def value(self) -> Kept_co:
        """What it is now."""

    def look(self) -> bool:
        """Read it again if it may have changed; whether it has. Blocks. To be called every second or so."""

    def look_again(self) -> bool:
        """The same out of turn: somebody needs what is new."""


class KeptFiles(Generic[T]):
    """What `read` makes of some files. It reads them itself, and raises InvalidConfigError, as the constructor does.

    Files are read again when one of them looks different, and not before two looks have found them the same: who is
    still writing them is not interrupted.
    """

    def __init__(self, read: Callable[[], T], paths: Sequence[str]) -> None:
        self._read, self._paths = read, [Path(path) for path in paths if path]
        self._read_at = self._seen = self._looks()
        self.value = read()

    def look(self) -> bool:
        """Look at the files, and read them if they have changed and are at rest."""
        looks, before = self._looks(), self._seen
        self._seen = looks
        return looks == before and self._read_again(looks)

    def look_again(self) -> bool:
        """Look at the files, and read them if they have changed."""
        return self._read_again(self._looks())

    def _read_again(self, looks: _Looks) -> bool:
        if looks == self._read_at:
            return False
        self._read_at = looks
        names = ", ".join(str(path) for path in self._paths)
        try:
            self.value = self._read()
        except InvalidConfigError as error:
            logger.error("%s changed and cannot be used; what was read before stays in force: %s", names, error)
            return False
        logger.info("%s changed and was read again", names)
        return True

    def _looks(self) -> _Looks:
        return tuple(_look(path) for path in self._paths)


class KeptAnswer(Generic[T]):
    """What a server answers: `read` asks it, and raises InvalidConfigError. Times are in seconds, by `now_s`.

    It is asked every `refresh_s`, and out of turn; but not within `pause_s` of the last time, whatever came of that.
    `value` is `nothing` until there is an answer.
    """

    def __init__(
        self, read: Callable[[], T], nothing: T, refresh_s: float, pause_s: float, now_s: Callable[[], float]
    ) -> None:
        self._read, self._refresh_s, self._pause_s, self._now_s = read, refresh_s, pause_s, now_s
        self.value = nothing
        self._asked_s = float("-inf")
        self._is_answered = False
        self._told = ""

    def look(self) -> bool:
        """Ask if it is time to; soon where the last answer was none."""
        return self._ask_after(self._refresh_s if self._is_answered else self._pause_s)

    def look_again(self) -> bool:
        """Ask now, unless that was done a moment ago."""
        return self._ask_after(self._pause_s)

    def _ask_after(self, pause_s: float) -> bool:
        now_s = self._now_s()
        if now_s - self._asked_s < pause_s:
            return False
        self._asked_s = now_s
        try:
            self.value = self._read()
        except InvalidConfigError as error:
            self._is_answered = False
            if self._told != str(error):
                logger.error("%s; what was answered before stays in force", error)
            self._told = str(error)
            return False
        self._is_answered, self._told = True, ""
        return True


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
