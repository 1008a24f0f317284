"""Threads that check passwords, in turn by address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from sharegroup.gateway.clients.logins.login_turns import LoginTurns
from tests.harness.event_loop import advance, settle, until

#: For a test that hangs.
DEADLINE_S = 60.0
#: Longer than any test takes.
LONG_S = 1_000.0


@pytest.fixture
def turns() -> Iterator[LoginTurns]:
    """One thread; the address of a failed login is blocked for a long time."""
    turns = LoginTurns(LONG_S, threads=1)
    yield turns
    turns.close()


def succeeded() -> bool:
    return False


def failed() -> bool:
    return True


class Door:
    """A step that blocks until the door opens; it records who entered."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self._open = threading.Event()

    def step(self, name: str) -> Callable[[], str]:
        def check() -> str:
            self.came.append(name)
            assert self._open.wait(DEADLINE_S)
            return name

        return check

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.open()


async def test_many_logins_of_one_address_delay_another_by_one(turns: LoginTurns, door: Door) -> None:
    rude = [asyncio.ensure_future(turns.run("rude", door.step(f"rude {n}"), succeeded)) for n in range(400)]
    await settle()
    good = asyncio.ensure_future(turns.run("good", door.step("good"), succeeded))
    await settle()
    door.open()
    await asyncio.gather(good, *rude)
    assert door.came[:3] == ["rude 0", "good", "rude 1"]
    assert len(door.came) == 401


async def test_an_address_has_one_login_in_progress(door: Door) -> None:
    turns = LoginTurns(LONG_S, threads=4)
    logins = [asyncio.ensure_future(turns.run(name, door.step(name), succeeded)) for name in ("a", "a", "b", "b")]
    await until(lambda: len(door.came) == 2)
    await settle()
    assert sorted(door.came) == ["a", "b"]
    door.open()
    assert await asyncio.gather(*logins) == ["a", "a", "b", "b"]
    turns.close()


async def test_failed_login_blocks_only_its_own_address(turns: LoginTurns) -> None:
    guess = asyncio.ensure_future(turns.run("rude", lambda: "no", failed))
    again = asyncio.ensure_future(turns.run("rude", lambda: "no", failed))
    assert await turns.run("good", lambda: "yes", succeeded) == "yes"
    assert not guess.done()
    assert not again.done()


async def test_failed_login_blocks_its_address_after_the_client_left(turns: LoginTurns, door: Door) -> None:
    checked = asyncio.Event()

    def has_failed() -> bool:
        checked.set()
        return True

    guess = asyncio.ensure_future(turns.run("rude", door.step("no"), has_failed))
    await until(lambda: door.came)
    guess.cancel()
    again = asyncio.ensure_future(turns.run("rude", lambda: "yes", succeeded))
    door.open()
    await checked.wait()
    advance(LONG_S - 100)
    await settle()
    assert not again.done()
    advance(100)
    assert await again == "yes"


async def test_client_that_leaves_while_waiting_blocks_nobody(turns: LoginTurns, door: Door) -> None:
    first = asyncio.ensure_future(turns.run("a", door.step("first"), succeeded))
    gone = [asyncio.ensure_future(turns.run("a", door.step("gone"), succeeded)) for _ in range(3)]
    last = asyncio.ensure_future(turns.run("a", door.step("last"), succeeded))
    await settle()
    for each in gone:
        each.cancel()
    door.open()
    assert await asyncio.gather(first, last) == ["first", "last"]
    assert door.came == ["first", "last"]


async def test_exception_of_a_step_reaches_only_its_caller(turns: LoginTurns) -> None:
    def broken() -> str:
        raise RuntimeError("broken")

    logins = turns.run("a", broken, succeeded), turns.run("a", lambda: "yes", succeeded)
    problem, answer = await asyncio.gather(*logins, return_exceptions=True)
    assert isinstance(problem, RuntimeError)
    assert answer == "yes"
