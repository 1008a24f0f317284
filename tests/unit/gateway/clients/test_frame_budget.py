"""The budget of large requests."""

from __future__ import annotations

import asyncio
import random

import pytest

from sharegroup.gateway.clients.frame_budget import ORDINARY_BYTES, FrameBudget
from tests.harness.event_loop import settle

MIB = 1_048_576
TOTAL = 128 * MIB


def take(budget: FrameBudget, size: int, address: str = "a") -> asyncio.Future[None]:
    return asyncio.ensure_future(budget.acquire(address, size))


async def test_stalled_huge_requests_do_not_block_ordinary_ones() -> None:
    budget = FrameBudget(TOTAL)
    huge = [take(budget, 100 * MIB) for _ in range(10)]
    await settle()
    await asyncio.gather(*(budget.acquire("b", ORDINARY_BYTES) for _ in range(28)))
    assert budget.used_bytes == TOTAL
    one_more = take(budget, ORDINARY_BYTES, "b")
    await settle()
    assert not one_more.done()
    for each in (*huge, one_more):
        each.cancel()


async def test_shares_are_assigned_in_turn_by_address() -> None:
    budget = FrameBudget(TOTAL)
    waiting = [take(budget, 100 * MIB, "rude") for _ in range(3)] + [take(budget, 100 * MIB, "good")]
    granted = []
    for _ in waiting:
        await settle()
        granted.append([each.done() for each in waiting])
        budget.release(100 * MIB)
    assert granted == [
        [True, False, False, False],
        [True, True, False, False],  # those before the good one
        [True, True, False, True],
        [True, True, True, True],
    ]


async def test_huge_requests_do_not_overtake_each_other() -> None:
    budget = FrameBudget(TOTAL)
    await budget.acquire("a", 60 * MIB)
    waiting, smaller = take(budget, 100 * MIB, "b"), take(budget, 2 * MIB, "c")
    await settle()
    assert not waiting.done()
    assert not smaller.done()
    budget.release(60 * MIB)
    await settle()
    assert waiting.done()
    assert smaller.done()


async def test_request_larger_than_the_budget_is_read_alone() -> None:
    budget = FrameBudget(8 * MIB)
    await budget.acquire("a", ORDINARY_BYTES)
    larger = take(budget, 100 * MIB, "b")
    await settle()
    assert not larger.done()
    budget.release(ORDINARY_BYTES)
    await settle()
    assert larger.done()


@pytest.mark.parametrize("is_granted", [False, True])
async def test_cancelled_request_holds_no_share(is_granted: bool) -> None:
    """This includes the moment in which the share is assigned."""
    budget = FrameBudget(TOTAL)
    await budget.acquire("a", 100 * MIB)
    gone, other = take(budget, 100 * MIB, "b"), take(budget, 20 * MIB, "c")
    await settle()
    if is_granted:
        budget.release(100 * MIB)
    gone.cancel()
    if not is_granted:
        budget.release(100 * MIB)
    await other
    assert (budget.used_bytes, budget.waiting_count) == (20 * MIB, 0)


async def test_shares_never_exceed_the_budget() -> None:
    most = 0

    async def visit(budget: FrameBudget, choice: random.Random) -> None:
        nonlocal most
        size = choice.choice([100_000, ORDINARY_BYTES, 3 * MIB, 40 * MIB, 100 * MIB])
        taking = take(budget, size, choice.choice("abcd"))
        if choice.random() < 0.2:
            await asyncio.sleep(0)
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            if not taking.cancelled():
                budget.release(size)
            return
        await taking
        most = max(most, budget.used_bytes)
        for _ in range(choice.randrange(5)):
            await asyncio.sleep(0)
        budget.release(size)

    budget = FrameBudget(TOTAL)
    choice = random.Random(3)
    await asyncio.gather(*(visit(budget, choice) for _ in range(500)))
    assert (budget.used_bytes, budget.waiting_count) == (0, 0)
    assert TOTAL // 2 < most <= TOTAL
