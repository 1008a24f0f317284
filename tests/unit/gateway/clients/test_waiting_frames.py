"""The queue of a client's requests, and when the body of a large one is read."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.gateway.clients.frame_budget import SMALL_BYTES, FrameBudget
from sharegroup.gateway.clients.waiting_frames import WaitingFrames
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from tests.harness.event_loop import settle

MIB = 1_048_576
LARGE = 2 * MIB


class Link(FrameProtocol):
    def __init__(self) -> None:
        super().__init__(0)


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def budget() -> FrameBudget:
    return FrameBudget(8 * MIB)


@pytest.fixture
def frames(link: Link, budget: FrameBudget) -> WaitingFrames:
    return WaitingFrames(link, budget)


def ask(frames: WaitingFrames) -> asyncio.Task[memoryview]:
    return asyncio.ensure_future(frames.next("a"))


def frame(size: int) -> memoryview:
    return memoryview(bytes(size))


async def test_small_request_is_read_immediately(frames: WaitingFrames, link: Link) -> None:
    frames.begin_request(SMALL_BYTES)
    assert not link.is_body_held
    frames.put(frame(SMALL_BYTES))
    assert len(await frames.next("a")) == SMALL_BYTES


async def test_large_request_holds_its_share_until_it_is_handled(
    frames: WaitingFrames, link: Link, budget: FrameBudget
) -> None:
    next_frame = ask(frames)
    await settle()
    frames.begin_request(LARGE)
    assert (link.is_body_held, frames.has_share) == (True, False)
    await settle()
    assert (link.is_body_held, frames.has_share, budget.used_bytes) == (False, True, LARGE)
    frames.put(frame(LARGE))
    await next_frame
    assert budget.used_bytes == LARGE
    following = ask(frames)
    await settle()
    assert (budget.used_bytes, frames.has_share) == (0, False)
    following.cancel()


async def test_large_request_waits_for_earlier_requests(frames: WaitingFrames, link: Link, budget: FrameBudget) -> None:
    seen = []
    frames.put(frame(10))
    frames.put(frame(10))
    frames.begin_request(LARGE)
    for _ in range(2):
        await frames.next("a")
        seen.append((link.is_body_held, budget.used_bytes))
    following = ask(frames)
    await settle()
    seen.append((link.is_body_held, budget.used_bytes))
    following.cancel()
    assert seen == [(True, 0), (True, 0), (False, LARGE)]


async def test_disconnected_client_releases_its_share(frames: WaitingFrames, budget: FrameBudget) -> None:
    frames.begin_request(LARGE)
    coming = ask(frames)
    await settle()
    assert budget.used_bytes == LARGE
    coming.cancel()
    frames.clear()
    frames.begin_request(7 * MIB + 1)  # does not fit beside the other share
    await budget.acquire("b", 2 * MIB)
    waiting = ask(frames)
    await settle()
    assert budget.waiting_count == 1
    waiting.cancel()
    await settle()
    frames.clear()
    assert budget.waiting_count == 0
