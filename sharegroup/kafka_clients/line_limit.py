"""A log that clients cannot fill, nor write lines of their own into."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES, WINDOW_S = 10, 10.0


class LineLimit(logging.Filter):
    """For a log handler: at most `lines` lines of each message in `window_s`, whatever the values in it.

    The first line of the next window tells how many were left out. Line ends and the like, which come from outside if
    they come at all, are escaped. Messages are told apart by the code's own texts, so that there are few of them.
    """

    def __init__(
        self, window_s: float = WINDOW_S, now: Callable[[], float] = time.monotonic, lines: int = LINES
    ) -> None:
        super().__init__()
        self._window_s, self._now, self._lines = window_s, now, lines
        self._windows: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """logging's: whether the record is written."""
        now, place = self._now(), (record.pathname, record.lineno, str(record.msg) if record.args else "")
        start, count = self._windows.get(place, (float("-inf"), 0))
        is_new = now - start >= self._window_s
        self._windows[place] = (now, 1) if is_new else (start, count + 1)
        if not is_new and count >= self._lines:
            return False
        text = record.getMessage()
        if not text.isprintable():
            text = text.encode("unicode_escape").decode("ascii")
        left_out = count - self._lines if is_new else 0
        record.msg = f"{text} ({left_out} such lines were left out before)" if left_out > 0 else text
        record.args = ()
        return True
