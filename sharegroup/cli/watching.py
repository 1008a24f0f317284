"""`--watch`: a command that only looks, again and again until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import typer

#: Clears a terminal and goes to its top.
_CLEAR = "\x1b[2J\x1b[H"


def watching(look: Callable[[], None], interval_s: float | None, pause: Callable[[float], None] = time.sleep) -> int:
    """Look once, or each `interval_s` seconds until Ctrl-C; the exit code, which is 0."""
    try:
        while True:
            if interval_s is not None and sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            look()
            if interval_s is None:
                return 0
            pause(interval_s)
    except KeyboardInterrupt:
        return 0 if interval_s is not None else 130
