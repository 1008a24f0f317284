"""The option `--watch`, which repeats a read-only command until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from itertools import count as count_up

import typer

#: The escape sequence that clears the terminal and moves the cursor to the top.
_CLEAR = "\x1b[2J\x1b[H"


def repeat(
    show: Callable[[], None],
    interval_s: float | None,
    pause: Callable[[float], None] = time.sleep,
    count: int | None = None,
) -> int:
    """Call `show` every `interval_s` seconds until Ctrl-C, at most `count` times. Return exit code 0.

    If `interval_s` is None, call `show` once. If `count` is None, the number of calls is not limited. `pause` waits for
    a number of seconds.
    """
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
