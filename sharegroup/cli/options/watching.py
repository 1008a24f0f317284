"""`--watch`: a command that only looks, again and again until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count as count_up

import typer

#: Clears a terminal and goes to its top.
_CLEAR = "\x1b[2J\x1b[H"


def watching(
    look: Callable[[], None],
    interval_s: float | None,
    pause: Callable[[float], None] = time.sleep,
    count: int | None = None,
) -> int:
    """Look once, or each `interval_s` seconds until Ctrl-C or `count` looks; the exit code, which is 0."""
    if interval_s is None:
        look()
        return 0
    try:
        for number in count_up(1):
            if sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            look()
            if number == count:
                break
            pause(interval_s)
    except KeyboardInterrupt:
        pass
    return 0
