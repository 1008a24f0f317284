"""A `MemberLogic` shared by threads: a thread has exclusive access during its turn and receives the time of its begin.

The logic is only accessible in a turn. The time is read within the turn, so the logic never sees it decrease unless the
machine's clock does.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sharegroup.member.member_logic import MemberLogic

#: The deadline itself is still in time, so a waiting thread checks it after this delay.
_BEHIND_S = 0.05


class SharedLogic:
    """The access to the logic by turns. `now_ms` is the clock."""

    def __init__(self, logic: MemberLogic, now_ms: Callable[[], int]) -> None:
        self._logic, self._now_ms = logic, now_ms
        self._stepped = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[tuple[MemberLogic, int]]:
        """Provide the logic and the time. Inside, the caller may wait only for the next step."""
        with self._stepped:
            yield self._logic, self._now_ms()

    def notify_step(self) -> None:
        """Wake all threads that wait for a step. Call it only within a turn."""
        self._stepped.notify_all()

    def wait_for_step(self, deadline_ms: int) -> int:
        """Release the turn until a step, or shortly after the deadline, and return the time. Only within a turn."""
        self._stepped.wait(max(0, deadline_ms - self._now_ms()) / 1000 + _BEHIND_S)
        return self._now_ms()
