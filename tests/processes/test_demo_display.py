"""The demo prints a line every few seconds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from jobs.demo_tools import display as module
from jobs.demo_tools.display import LINE_INTERVAL_S, Display
from jobs.demo_tools.processes import STAGES, job_stage
from sharegroup.testing.delivery_audit import Progress


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


def test_a_wait_prints_its_stage_every_few_seconds(clock: Clock) -> None:
    screen = Console(file=io.StringIO(), width=120)
    Display(screen, "group", 10).wait("the job", lambda: clock.now > 7, lambda: f"at {clock.now:.0f}")
    said = lines(screen)
    assert [text[10:] for text in said] == [
        "waiting for the job",
        "  still waiting for the job: at 3",
        "  still waiting for the job: at 6",
    ]
    times = [float(text[:6]) for text in said]
    assert all(
        after - before <= LINE_INTERVAL_S + 0.2 for before, after in zip(times, [*times[1:], clock.now], strict=True)
    )


def test_without_a_terminal_unchanged_progress_is_printed_seldom(clock: Clock) -> None:
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
    clock.now += LINE_INTERVAL_S
    display.show(now, {("t", 0): 10})
    assert len(lines(screen)) == 2


def test_the_stage_of_a_job_is_the_last_that_its_log_has(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    assert job_stage(log) == "Python starts"
    log.write_text("a: starting Spark; tables in x\nb: Spark has started; checking topics\n")
    assert job_stage(log) == "checking topics and tables"
    assert job_stage(log, since=log.stat().st_size) == "Python starts"


def test_the_job_logs_the_text_of_each_stage() -> None:
    package = Path(__file__).parents[2] / "sharegroup" / "spark" / "job"
    sources = "".join(path.read_text(encoding="utf-8") for path in package.glob("*.py"))
    for query in ("group_coordinator", "share_partition"):
        sources += sources.replace("%(query)s", query)
    assert [text for text, _ in STAGES if text not in sources] == []
