"""The option `--watch`: repeat a command that only reads, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from itertools import count as count_up

import typer

#: Clear the terminal and move the cursor to its top.
_CLEAR = "\x1b[2J\x1b[H"


def repeat(
    show: Callable[[], None],
    interval_s: float | None,
    pause: Callable[[float], None] = time.sleep,
    count: int | None = None,
) -> int:
    """Call `show` once, or every `interval_s` seconds until Ctrl-C or for `count` times. Return exit code 0."""
    if interval_s is None:
        show()
        return 0
    try:
        for number in count_up(1):
            if sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            show()
            if number == count:
                break
            pause(interval_s)
    except KeyboardInterrupt:
        pass
    return 0
