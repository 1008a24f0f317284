"""The thread around a `MemberLogic`, like `member_loop`, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharegroup.member.member_logic import MemberLogic, Request, has_renewal
from tests.simulation.members.member_channel import MemberChannel
from tests.simulation.process_time import ProcessTime

#: Without responses it steps only as often as timed events require, because each step slows the simulation.
_TICK_MS = 1_000


class MemberThread:
    """The caller of the logic's steps, whenever something arrives or is due. `on_step` is called after each step, for
    pollers of the logic's calls; `on_failure` once when the membership has failed; `on_over` at its end."""

    def __init__(
        self,
        time: ProcessTime,
        logic: MemberLogic,
        channel: MemberChannel,
        on_step: Callable[[], None],
        on_failure: Callable[[], None],
        on_over: Callable[[], None],
    ) -> None:
        self._time, self._logic, self._channel = time, logic, channel
        self._on_step, self._on_failure, self._on_over = on_step, on_failure, on_over
        self._is_told = self._is_sending = False
        self._turn = 0

    def start(self) -> None:
        """Join the group."""
        self._channel.open()
        self._logic.mark_open()
        self._next(0)

    def wake(self) -> None:
        """Wake the thread, because there is something to do."""
        if self._logic.is_open and not self._is_sending:
            self._next(0)

    def _next(self, delay_ms: float) -> None:
        self._turn += 1
        turn = self._turn
        self._time.after(delay_ms, lambda: self._step() if self._turn == turn else None)

    def _step(self) -> None:
        logic, now_ms = self._logic, self._time.now_ms
        if logic.is_over(now_ms):
            self._on_over()
            return
        if logic.metadata_is_due(now_ms):
            logic.handle_metadata(self._channel.topics_metadata(logic.settings.topics), now_ms)
        requests = logic.step(self._channel.taken(), now_ms)
        if has_renewal(requests):
            self._is_sending = True
            self._channel.send(requests, lambda in_time: self._sent(requests if in_time else None))
        else:
            self._channel.send(requests)
            self._sent(requests)
        self._on_step()
        if logic.failure is not None and not self._is_told:
            self._is_told = True
            self._on_failure()

    def _sent(self, appended: Sequence[Request] | None) -> None:
        """Handle the end of a send; None: Kafka could not be reached."""
        self._is_sending = False
        if appended is not None:
            self._logic.mark_appended(appended, self._time.now_ms)
        self._next(_TICK_MS)
