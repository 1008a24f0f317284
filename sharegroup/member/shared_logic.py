"""A `MemberLogic` that threads share: who has the turn has it alone, and is told the time of that moment.

The logic is reached by a turn and in no other way. The time is read within the turn, so for the logic it never goes
back, as far as the machine's clock does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sharegroup.member.member_logic import MemberLogic

#: The deadline itself is still in time: who waits for it looks so long after it.
_BEHIND_S = 0.05


class SharedLogic:
    """Gives out turns. `now_ms` is the clock."""

    def __init__(self, logic: MemberLogic, now_ms: Callable[[], int]) -> None:
        self._logic, self._now_ms = logic, now_ms
        self._stepped = threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[tuple[MemberLogic, int]]:
        """The logic and the time, for as long as the caller stays inside; it must not wait there for anything else than
        the next step."""
        with self._stepped:
            yield self._logic, self._now_ms()

    def tell_step(self) -> None:
        """Wake whoever waits for a step. Only within a turn."""
        self._stepped.notify_all()

    def wait_for_step(self, deadline_ms: int) -> int:
        """Leave the turn to others until a step is told, at most to just behind the deadline; the time then. Only
        within a turn."""
        self._stepped.wait(max(0, deadline_ms - self._now_ms()) / 1000 + _BEHIND_S)
        return self._now_ms()
