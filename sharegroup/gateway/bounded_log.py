"""A log that its readers' enemies cannot fill: so many lines of a kind in a while, and how many there were besides."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES, WINDOW_S = 10, 10.0


class BoundedLog:
    """At most `LINES` lines of each `kind` in `WINDOW_S`. Kinds are few and ours: never text that a client sent."""

    def __init__(self, logger: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._now = logger, now
        self._windows: dict[str, tuple[float, int]] = {}

    def log(self, kind: str, level: int, message: str, *args: object, exc_info: bool = False) -> None:
        """`logging`'s, if there still is room; the first line of a new window tells how many were left out."""
        now = self._now()
        start, count = self._windows.get(kind, (float("-inf"), 0))
        if now - start < WINDOW_S:
            self._windows[kind] = (start, count + 1)
            if count >= LINES:
                return
        else:
            self._windows[kind] = (now, 1)
            if count > LINES:
                message = f"{message} ({count - LINES} such lines were left out before)"
        self._logger.log(level, message, *args, exc_info=exc_info)
