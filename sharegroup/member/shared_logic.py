"""Shares a `MemberLogic` between threads. A thread may use the logic only in a *turn*, which is exclusive.

The time is read at the begin of the turn, so calls of the logic never receive decreasing times unless the machine's
clock goes back.
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
        """Provide the logic and the time for the block. The block must not wait for anything except `wait_for_step`."""
        with self._stepped:
            yield self._logic, self._now_ms()

    def notify_step(self) -> None:
        """Wake all threads that wait for a step. Call it only within a turn."""
        self._stepped.notify_all()

    def wait_for_step(self, deadline_ms: int) -> int:
        """Release the turn until the next step has ended, and return the time at that moment.

        The wait ends shortly after `deadline_ms` at the latest. Call this only within a turn.
        """
        self._stepped.wait(max(0, deadline_ms - self._now_ms()) / 1000 + _BEHIND_S)
        return self._now_ms()
