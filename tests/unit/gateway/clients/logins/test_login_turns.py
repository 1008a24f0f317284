"""Threads that check passwords, in turn by address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharegroup.gateway.clients.logins.login_turns import LoginTurns

T = TypeVar("T")
DEADLINE_S = 60.0


def run(test: Callable[[LoginTurns], Awaitable[T]], failed_delay_s: float = 0.0, threads: int = 1) -> T:
    async def main() -> T:
        turns = LoginTurns(failed_delay_s, threads)
        try:
            return await test(turns)
        finally:
            turns.close()

    return asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def succeeded() -> bool:
    return False


def failed() -> bool:
    return True


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


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


def test_many_logins_of_one_address_delay_another_by_one() -> None:
    async def test(turns: LoginTurns) -> list[str]:
        door = Door()
        rude = [asyncio.ensure_future(turns.run("rude", door.step(f"rude {n}"), succeeded)) for n in range(400)]
        await settled()
        good = asyncio.ensure_future(turns.run("good", door.step("good"), succeeded))
        await settled()
        door.open()
        await asyncio.gather(good, *rude)
        return door.came

    came = run(test)
    assert came[:3] == ["rude 0", "good", "rude 1"]
    assert len(came) == 401


def test_an_address_has_one_login_in_progress() -> None:
    async def test(turns: LoginTurns) -> list[str]:
        door = Door()
        work = [
            asyncio.ensure_future(turns.run(address, door.step(address), succeeded)) for address in ("a", "a", "b", "b")
        ]
        while len(door.came) < 2:
            await asyncio.sleep(0.001)
        await settled()
        came = sorted(door.came)
        door.open()
        await asyncio.gather(*work)
        return came

    assert run(test, threads=4) == ["a", "b"]


def test_failed_login_blocks_only_its_own_address() -> None:
    """The delay is longer than the test: only the address of the failed login can be waiting for it."""

    async def test(turns: LoginTurns) -> tuple[str, bool, bool]:
        guess = asyncio.ensure_future(turns.run("rude", lambda: "no", failed))
        again = asyncio.ensure_future(turns.run("rude", lambda: "no", failed))
        good = await turns.run("good", lambda: "yes", succeeded)
        return good, guess.done(), again.done()

    assert run(test, failed_delay_s=2 * DEADLINE_S) == ("yes", False, False)


def test_failed_login_blocks_its_address_after_the_client_left() -> None:
    async def test(turns: LoginTurns) -> tuple[float, str]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        guess = asyncio.ensure_future(turns.run("rude", lambda: "no", failed))
        await asyncio.sleep(0.01)
        guess.cancel()
        answer = await turns.run("rude", lambda: "yes", succeeded)
        return loop.time() - begin, answer

    elapsed, answer = run(test, failed_delay_s=0.2)
    assert answer == "yes"
    assert elapsed >= 0.2


def test_client_that_leaves_while_waiting_blocks_nobody() -> None:
    async def test(turns: LoginTurns) -> list[str]:
        door = Door()
        first = asyncio.ensure_future(turns.run("a", door.step("first"), succeeded))
        gone = [asyncio.ensure_future(turns.run("a", door.step("gone"), succeeded)) for _ in range(3)]
        last = asyncio.ensure_future(turns.run("a", door.step("last"), succeeded))
        await settled()
        for each in gone:
            each.cancel()
        door.open()
        await asyncio.gather(first, last)
        return door.came

    assert run(test) == ["first", "last"]


def test_exception_of_a_step_reaches_only_its_caller() -> None:
    def broken() -> str:
        raise RuntimeError("broken")

    async def test(turns: LoginTurns) -> list[object]:
        return await asyncio.gather(
            turns.run("a", broken, succeeded), turns.run("a", lambda: "yes", succeeded), return_exceptions=True
        )

    problem, answer = run(test)
    assert isinstance(problem, RuntimeError)
    assert answer == "yes"
