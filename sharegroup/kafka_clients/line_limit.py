"""Limits how many log lines clients can cause, and escapes line breaks in texts that come from clients.

Clients can then neither fill the log, nor send a text that looks like a log line of its own.
"""

import logging
import time
from collections.abc import Callable

from sharegroup.log_fields import FIELDS

LINES, WINDOW_S = 10, 10.0


class LineLimit(logging.Filter):
    """A log filter that passes at most `lines` lines of each message within `window_s` seconds.

    Lines of one log call with the same format string count as the same message, even if their values differ. The first
    line of a message after these `window_s` seconds contains the number of its suppressed lines. Control characters
    such as line ends are escaped, because only values from clients or servers contain them.
    """

    def __init__(
        self, window_s: float = WINDOW_S, now: Callable[[], float] = time.monotonic, lines: int = LINES
    ) -> None:
        super().__init__()
        self._window_s, self._now, self._lines = window_s, now, lines
        self._windows: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written, and change its text (see the class). Called by logging."""
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
        vars(record)[FIELDS] = record.args
        record.msg = f"{text} ({left_out} such lines were suppressed before)" if left_out > 0 else text
        record.args = ()
        return True
