"""Shares a `MemberLogic` between threads. A thread may use the logic only in a *turn*, which is exclusive.

The time is read at the beginning of the turn. Calls of the logic therefore never receive decreasing times, unless the
machine's clock goes back.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sharegroup.member.member_logic import MemberLogic

#: A waiting thread wakes up this many seconds after its deadline, because a response at the deadline is in time.
_BEHIND_S = 0.05


class SharedLogic:
    """Gives threads exclusive access to a `MemberLogic`. `now_ms` returns the time, in ms."""

    def __init__(self, logic: MemberLogic, now_ms: Callable[[], int]) -> None:
        self._logic, self._now_ms = logic, now_ms
        self._stepped = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[tuple[MemberLogic, int]]:
        """Give a `with` block exclusive use of the logic, and provide (logic, current time in ms).

        Other threads cannot use the logic during the block. The block must therefore wait only with `wait_for_step`.
        """
        with self._stepped:
            yield self._logic, self._now_ms()

    def notify_step(self) -> None:
        """Wake all threads that are in `wait_for_step`, because the logic has changed. Call it only within a turn."""
        self._stepped.notify_all()

    def wait_for_step(self, deadline_ms: int) -> int:
        """Wait for the next `notify_step`, and return the time (ms) after the wait.

        Call this only within a `turn()` block. During the wait, other threads may use the logic. After the wait, this
        thread has exclusive use again. The wait ends shortly after `deadline_ms` at the latest.
        """
        self._stepped.wait(max(0, deadline_ms - self._now_ms()) / 1000 + _BEHIND_S)
        return self._now_ms()
