"""The time of a process: its timers never fire when it is dead, and fire late when it was suspended."""

from __future__ import annotations

from tests.simulation.virtual_clock import Action, Scheduler

#: How long the machines of processes have been running when the simulation starts.
_UP_MS = 86_400_000


class ProcessTime:
    """The steady clock and the timers of one process. `ahead_ms` is how far the brokers' clocks are ahead of it."""

    def __init__(self, clock: Scheduler) -> None:
        self._clock = clock
        self.ahead_ms = clock.start_ms - _UP_MS
        self._still_until_ms = 0.0
        self.alive = True

    @property
    def now_ms(self) -> int:
        """Return the milliseconds since the machine's start."""
        return self._clock.now_ms - self.ahead_ms

    def stand_still(self, ms: float) -> None:
        """Suspend the process, like a debugger or a machine without memory."""
        self._still_until_ms = max(self._still_until_ms, self._clock.now_ms + ms)

    def after(self, delay_ms: float, action: Action) -> None:
        """Let the process act after a delay."""
        self._clock.after(delay_ms, lambda: self._happen(action))

    def after_at_all_costs(self, delay_ms: float, action: Action) -> None:
        """Act after a delay even if the process is suspended, for messages that are on their way."""
        self._clock.after(delay_ms, lambda: action() if self.alive else None)

    def _happen(self, action: Action) -> None:
        if not self.alive:
            return
        if self._clock.now_us < self._still_until_ms * 1000:
            self._clock.at(self._still_until_ms, lambda: self._happen(action))
        else:
            action()
