"""The queue of a client's requests, and when the body of a large one is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharegroup.gateway.clients.frame_budget import SMALL_BYTES, FrameBudget
from sharegroup.gateway.clients.waiting_frames import WaitingFrames
from sharegroup.kafka_clients.connections.framing import FrameProtocol

T = TypeVar("T")
MIB = 1_048_576
LARGE = 2 * MIB


class Link(FrameProtocol):
    def __init__(self) -> None:
        super().__init__(0)


def run(test: Callable[[WaitingFrames, Link, FrameBudget], Awaitable[T]]) -> T:
    async def main() -> T:
        link, budget = Link(), FrameBudget(8 * MIB)
        return await test(WaitingFrames(link, budget), link, budget)

    return asyncio.run(asyncio.wait_for(main(), 60))


def ask(frames: WaitingFrames) -> asyncio.Task[memoryview]:
    return asyncio.ensure_future(frames.next("a"))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def frame(size: int) -> memoryview:
    return memoryview(bytes(size))


def test_small_request_is_read_immediately() -> None:
    async def test(frames: WaitingFrames, link: Link, budget: FrameBudget) -> tuple[bool, int]:
        frames.begin_request(SMALL_BYTES)
        was_held = link.is_body_held
        frames.put(frame(SMALL_BYTES))
        return was_held, len(await frames.next("a"))

    assert run(test) == (False, SMALL_BYTES)


def test_large_request_holds_its_share_until_it_is_handled() -> None:
    async def test(frames: WaitingFrames, link: Link, budget: FrameBudget) -> list[object]:
        next_frame = ask(frames)
        await settled()
        frames.begin_request(LARGE)
        begun = link.is_body_held, frames.has_share
        await settled()
        coming = link.is_body_held, frames.has_share, budget.used_bytes
        frames.put(frame(LARGE))
        await next_frame
        handling = budget.used_bytes
        following = ask(frames)
        await settled()
        following.cancel()
        return [begun, coming, handling, budget.used_bytes, frames.has_share]

    assert run(test) == [(True, False), (False, True, LARGE), LARGE, 0, False]


def test_large_request_waits_for_earlier_requests() -> None:
    async def test(frames: WaitingFrames, link: Link, budget: FrameBudget) -> list[tuple[bool, int]]:
        seen = []
        frames.put(frame(10))
        frames.put(frame(10))
        frames.begin_request(LARGE)
        for _ in range(2):
            await frames.next("a")
            seen.append((link.is_body_held, budget.used_bytes))
        following = ask(frames)
        await settled()
        seen.append((link.is_body_held, budget.used_bytes))
        following.cancel()
        return seen

    assert run(test) == [(True, 0), (True, 0), (False, LARGE)]


def test_disconnected_client_releases_its_share() -> None:
    async def test(frames: WaitingFrames, link: Link, budget: FrameBudget) -> tuple[int, int, int]:
        frames.begin_request(LARGE)
        coming = ask(frames)
        await settled()
        used = budget.used_bytes
        coming.cancel()
        frames.clear()
        frames.begin_request(7 * MIB + 1)  # does not fit beside the other share
        await budget.acquire("b", 2 * MIB)
        waiting = ask(frames)
        await settled()
        was_waiting = budget.waiting_count
        waiting.cancel()
        await settled()
        frames.clear()
        return used, was_waiting, budget.waiting_count

    assert run(test) == (LARGE, 1, 0)
