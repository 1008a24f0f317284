"""An event loop in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class Journal:
    """A loop, and when what was said on it."""

    def __init__(self) -> None:
        self.clock = Scheduler(1)
        self.loop = VirtualLoop(self.clock)
        self.lines: list[tuple[int, str]] = []

    def say(self, text: str) -> None:
        self.lines.append((self.clock.now_ms - self.clock.start_ms, text))

    async def count(self, name: str, pause_s: float, times: int) -> None:
        for at in range(times):
            await asyncio.sleep(pause_s)
            self.say(f"{name} {at}")

    def run(self, ms: int) -> None:
        self.clock.run_until(self.clock.now_ms + ms)


@pytest.fixture
def journal() -> Journal:
    return Journal()


def test_who_waits_less_than_a_millisecond_waits_for_one(journal: Journal) -> None:
    """Else a loop that waits for what is left, which rounding makes of nothing, would never end."""
    journal.loop.start(journal.count("a", 1e-14, 2))
    journal.run(10)
    assert journal.lines == [(1, "a 0"), (2, "a 1")]


def test_time_jumps_from_timer_to_timer(journal: Journal) -> None:
    journal.loop.start(journal.count("a", 3600, 2))
    journal.loop.start(journal.count("b", 1800, 3))
    journal.run(10_000_000)
    assert journal.lines == [
        (1_800_000, "b 0"), (3_600_000, "a 0"), (3_600_000, "b 1"), (5_400_000, "b 2"), (7_200_000, "a 1"),
    ]  # fmt: skip


def test_a_timer_never_comes_early(journal: Journal) -> None:
    async def wait() -> None:
        for part in (0.0001, 0.1, 0.2, 0.0014):
            end = journal.loop.time() + part
            await asyncio.sleep(part)
            assert journal.loop.time() >= end - 1e-9
        journal.say("done")

    journal.loop.start(wait())
    journal.run(1_000)
    assert journal.lines == [(303, "done")]


def test_asyncio_has_what_it_needs(journal: Journal) -> None:
    async def waits() -> None:
        event, lock = asyncio.Event(), asyncio.Lock()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), 5)
        journal.say("timed out")
        asyncio.get_running_loop().call_later(1, event.set)
        async with lock:
            await asyncio.wait_for(event.wait(), 5)
        found = await asyncio.gather(
            asyncio.sleep(2, "x"), asyncio.get_running_loop().run_in_executor(None, len, "abc")
        )
        journal.say(str(found))

    journal.loop.start(waits())
    journal.run(60_000)
    assert journal.lines == [(5_000, "timed out"), (8_000, "['x', 3]")]
    assert journal.loop.problems == []


def test_a_cancelled_timer_never_comes(journal: Journal) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, journal.say, "no").cancel()

    journal.loop.start(main())
    journal.run(5_000)
    assert journal.lines == []


def test_what_is_due_while_a_process_stands_still_comes_after_it_in_order(journal: Journal) -> None:
    journal.loop.start(journal.count("a", 1, 4))
    journal.loop.start(journal.count("b", 1.5, 2))
    journal.run(1_200)
    journal.loop.pause()
    journal.run(3_800)
    journal.loop.resume()
    journal.run(5_000)
    assert journal.lines == [
        (1_000, "a 0"), (5_000, "b 0"), (5_000, "a 1"), (6_000, "a 2"), (6_500, "b 1"), (7_000, "a 3"),
    ]  # fmt: skip


def test_a_killed_process_does_nothing_more(journal: Journal) -> None:
    async def work() -> None:
        try:
            await journal.count("a", 1, 100)
        finally:
            journal.loop.call_soon(journal.say, "has no effect")

    journal.loop.start(work())
    journal.run(2_500)
    journal.loop.kill()
    journal.loop.call_later(1, journal.say, "nor this")
    journal.run(5_000)
    assert journal.lines == [(1_000, "a 0"), (2_000, "a 1")]
    assert journal.loop.problems == []


def test_a_task_may_kill_its_own_process(journal: Journal) -> None:
    async def end() -> None:
        await asyncio.sleep(1)
        journal.loop.kill()
        await asyncio.sleep(1)
        journal.say("still here")

    journal.loop.start(end())
    journal.run(5_000)
    assert journal.lines == []


def test_an_error_that_nobody_takes_is_a_problem(journal: Journal) -> None:
    async def fail() -> None:
        raise ValueError("wrong")

    journal.loop.start(fail())
    journal.run(1)
    assert [str(problem["exception"]) for problem in journal.loop.problems] == ["wrong"]


def test_a_process_that_repeats_something_without_a_pause_is_a_problem() -> None:
    journal = Journal()

    async def hurry() -> None:
        while True:
            await asyncio.sleep(0)

    journal.loop.start(hurry())
    journal.run(1_000)
    assert [problem["message"] for problem in journal.loop.problems] == [
        "the process repeats something without a pause"
    ]
