"""The demo's screen never stands still for long."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sharegroup.testkit.delivery_audit import Progress
from sharegroup.testkit.demo import display as module
from sharegroup.testkit.demo.display import WORD_S, Display


class Clock:
    """Sleeping is all that takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def lines(screen: Console) -> list[str]:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_what_is_waited_for_is_told_again_and_again(clock: Clock) -> None:
    screen = Console(file=io.StringIO(), width=120)
    Display(screen, "group", 10).wait("the job", lambda: clock.now > 7, lambda: f"at {clock.now:.0f}")
    said = lines(screen)
    assert [text[10:] for text in said] == [
        "waiting for the job",
        "  still waiting for the job: at 3",
        "  still waiting for the job: at 6",
    ]
    times = [float(text[:6]) for text in said]
    assert all(after - before <= WORD_S + 0.2 for before, after in zip(times, [*times[1:], clock.now], strict=True))


def test_where_there_is_no_terminal_a_state_is_a_line_and_said_once(clock: Clock) -> None:
    screen = Console(file=io.StringIO(), width=120)
    display = Display(screen, "group", 10)
    now = Progress(start_offsets={("t", 0): 4})
    now.outcomes["accepted"] = now.deliveries[1] = 4
    clock.now = 2.0
    for _ in range(2):
        display.show(now, {("t", 0): 10})
    assert lines(screen) == [
        "   2.0 s        4 of 10 finished,      2 rec/s, in flight 0, lag 6, deliveries 1x 4",
    ]
