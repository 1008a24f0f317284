"""Values from files and servers that are reloaded when they change, while the gateway runs.

An invalid new value has no effect: the previous value stays in use, and one line is logged.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sharegroup.errors import InvalidConfigError
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

T = TypeVar("T")
Kept_co = TypeVar("Kept_co", covariant=True)

#: (modification time in ns, size, inode) of each file, None for a missing file.
_FileStates = tuple[tuple[int, int, int] | None, ...]


class Reloading(Protocol[Kept_co]):
    """A value that is reloaded when its source changes."""

    @property
    def value(self) -> Kept_co:
        """The current value."""

    def check(self) -> bool:
        """Reload the value if its source may have changed. Return whether it was reloaded. Blocks.

        Call it about every second.
        """

    def reload_now(self) -> bool:
        """Reload the value without waiting for the next check. Return whether it was reloaded. Blocks."""


class ReloadingFiles(Generic[T]):
    """A value that `read` creates from some files.

    `read` raises InvalidConfigError if a file is invalid. The constructor calls `read` and raises the same error.

    After a file has changed, `check` waits until two successive checks find the same modification times and sizes, so
    that files are not read while they are being written. Then it reloads the files. If the new contents are invalid,
    `value` stays unchanged.
    """

    def __init__(self, read: Callable[[], T], paths: Sequence[str]) -> None:
        self._read, self._paths = read, [Path(path) for path in paths if path]
        self._read_state = self._seen = self._file_states()
        self.value = read()

    def check(self) -> bool:
        """Reload the files if they have changed and are stable since the last check. Return whether `value` is new."""
        states, before = self._file_states(), self._seen
        self._seen = states
        return states == before and self._reload(states)

    def reload_now(self) -> bool:
        """Reload the files if they have changed. Return whether `value` is new."""
        return self._reload(self._file_states())

    def _reload(self, states: _FileStates) -> bool:
        if states == self._read_state:
            return False
        self._read_state = states
        names = ", ".join(str(path) for path in self._paths)
        try:
            self.value = self._read()
        except InvalidConfigError as error:
            logger.error(
                "%(file)s changed but is invalid; the previous contents stay in use: %(error)s",
                LogFields(file=names, error=error),
            )
            return False
        logger.info("%(file)s changed and was reloaded", LogFields(file=names))
        return True

    def _file_states(self) -> _FileStates:
        return tuple(_file_state(path) for path in self._paths)


class ReloadingResponse(Generic[T]):
    """A value that `read` requests from a server. `read` raises InvalidConfigError if a request fails.

    If `check` is called regularly, the server is queried every `refresh_s` seconds, or every `pause_s` seconds after a
    failure. `reload_now` queries it earlier. There are always at least `pause_s` seconds between two queries. `value`
    is `initial` until there is a response. `now_s` returns the time in seconds.
    """

    def __init__(
        self, read: Callable[[], T], initial: T, refresh_s: float, pause_s: float, now_s: Callable[[], float]
    ) -> None:
        self._read, self._refresh_s, self._pause_s, self._now_s = read, refresh_s, pause_s, now_s
        self.value = initial
        self._queried_s = float("-inf")
        self._has_succeeded = False
        self._logged = ""

    def check(self) -> bool:
        """Query the server if the last query is `refresh_s` ago, or `pause_s` ago if the last query failed.

        Return whether the server was queried successfully.
        """
        return self._query_after(self._refresh_s if self._has_succeeded else self._pause_s)

    def reload_now(self) -> bool:
        """Query the server now, unless the last query is less than `pause_s` ago.

        Return whether the server was queried successfully.
        """
        return self._query_after(self._pause_s)

    def _query_after(self, pause_s: float) -> bool:
        now_s = self._now_s()
        if now_s - self._queried_s < pause_s:
            return False
        self._queried_s = now_s
        try:
            self.value = self._read()
        except InvalidConfigError as error:
            self._has_succeeded = False
            if self._logged != str(error):
                logger.error(
                    "reload from the server failed; the previous value stays in use: %(error)s", LogFields(error=error)
                )
            self._logged = str(error)
            return False
        self._has_succeeded, self._logged = True, ""
        return True


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
