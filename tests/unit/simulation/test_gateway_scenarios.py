"""Named situations of gateways and their members, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.protocol.messages import ShareFetchRequest
from sharegroup.types import AcknowledgeType
from tests.params import thorough
from tests.simulation.wire.wire_client import ShareClient
from tests.simulation.wire.wire_connection import Answer, Connection
from tests.simulation.wire.wire_habits import Habit
from tests.simulation.wire.wire_session import FetchSize
from tests.unit.simulation.gateway_world import LOCK_MS, GatewayWorld
from tests.unit.simulation.minimal_job import BATCH_MS

#: Works on five records for one to five seconds, and comes back at once.
SLOW_WITHIN_LOCK = Habit("slow_within_lock", work_ms=(1_000, 5_000), rests_ms=(0, 0), size=FetchSize(5, 30_000, True))
#: Takes ten records, and works on them until it is told to do something else.
BUSY = Habit("busy", work_ms=(60_000, 60_000), size=FetchSize(10, 30_000, True))


def delivered(world: GatewayWorld) -> list[tuple[str, int, int]]:
    """(member, offset, delivery count) of each record that a member has got, in order."""
    return [
        (delivery.member_id, offset, count)
        for delivery in world.witness.deliveries
        for first, last, count in delivery.acquired
        for offset in range(first, last + 1)
        if offset in delivery.records
    ]


# -- an answer to a Fetch without records ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "moved"),
    [(5, {"fetch": 10, "accept": 10}), (2 * LOCK_MS // 1000, {"fetch": 30, "unacquire": 20, "accept": 10})],
)
def test_records_that_a_broker_does_not_show_come_later(seconds: int, moved: dict[str, int]) -> None:
    """Shorter than a lock, and longer: then they are given back, and taken again, as never delivered."""
    world = GatewayWorld(1, gateways=1, produce_s=0)
    world.client("fast")
    world.run(3)
    faults = world.gateways[0].faults
    faults.empty_answer = 1.0
    world.produce(10)
    world.run(seconds)
    assert delivered(world) == []
    faults.empty_answer = 0.0
    world.run(LOCK_MS / 1000)
    assert delivered(world) == [("m0", offset, 1) for offset in range(10)]
    assert causes(world.job.transitions) == moved
    assert (world.job.rejected, world.problems()) == ([], [])


def causes(transitions: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many records went to another state, by why."""
    found: dict[str, int] = {}
    for row in transitions:
        found[row["cause"]] = found.get(row["cause"], 0) + row["last_offset"] - row["first_offset"] + 1
    return found


# -- members that are slow within the lock -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *thorough(1, 2)])
def test_polls_of_members_slow_within_the_lock_are_answered_from_the_buffer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    ask = Connection.ask

    async def timed(self: Connection, message: Any, version: int, timeout_s: float = 60.0) -> Answer:
        sent_ms = world.clock.now_ms
        answer = await ask(self, message, version, timeout_s)
        if isinstance(message, ShareFetchRequest):
            waits.append(answer.made_ms - sent_ms)
        return answer

    monkeypatch.setattr(Connection, "ask", timed)
    world = GatewayWorld(seed, gateways=1, produce_s=0)
    world.produce(5_000)
    for _ in range(3):
        world.client(SLOW_WITHIN_LOCK)
    world.run(60)  # until the gateway knows them
    waits.clear()
    world.run(300)
    from_the_job = [wait_ms for wait_ms in waits if wait_ms > BATCH_MS // 4]
    assert len(waits) > 200
    assert len(from_the_job) < len(waits) // 20
    assert {count for _, _, count in delivered(world)} == {1}
    assert (world.witness.violations, world.job.rejected, world.problems()) == ([], [], [])


# -- a member that leaves through one gateway while it acknowledges through another ------------------------------------


def leave_through_another(world: GatewayWorld, leaving: ShareClient, delay_ms: int) -> None:
    """The member tells the second gateway that it leaves, and a moment before or after that acknowledges at the first.

    Its own process ends both: the sessions stay as they are.
    """

    async def leave() -> None:
        leaving._coordinator = Connection(
            world.clock, world.weather, leaving.loop, world.gateways[1], world.kafka.brokers[0], leaving.member_id
        )
        leaving._epoch = -1
        world.witness.left(leaving.member_id, leaving.group_id)
        await leaving._heartbeat()

    async def acknowledge() -> None:
        await leaving._acknowledge(world.witness.deliveries, lambda: AcknowledgeType.ACCEPT)

    for task in leaving._tasks:
        task.cancel()
    world.clock.after(1_000, lambda: leaving.loop.start(leave()))
    world.clock.after(1_000 + delay_ms, lambda: leaving.loop.start(acknowledge()))


def seen_by(delay_ms: int) -> tuple[list[int | None], list[int]]:
    """(what the leaving member's acknowledgement was answered with, what another member was given again)"""
    world = GatewayWorld(3, gateways=2, produce_s=0)
    leaving = world.client(BUSY)
    leaving.move(0)
    world.run(3)
    world.produce(10)
    world.run(2)
    assert delivered(world) == [("m0", offset, 1) for offset in range(10)]
    world.client("fast").move(1)
    leave_through_another(world, leaving, delay_ms)
    world.run(60)
    assert world.problems() == []
    codes = [code for sent, code in world.witness.answers if sent.member_id == "m0"]
    return codes, [offset for member_id, offset, _ in delivered(world) if member_id != "m0"]


@pytest.mark.parametrize("delay_ms", [-300, -20, 0, 100, 200])
def test_what_is_acknowledged_before_the_job_has_taken_the_leave_counts(delay_ms: int) -> None:
    assert seen_by(delay_ms) == ([ErrorCode.NONE], [])


@pytest.mark.parametrize("delay_ms", [270, 300, 500, 1_000, 3_000])
def test_what_is_acknowledged_after_the_job_has_taken_the_leave_does_not(delay_ms: int) -> None:
    assert seen_by(delay_ms) == ([ErrorCode.INVALID_RECORD_STATE], list(range(10)))


def test_nobody_is_told_what_is_not_so_at_the_very_moment() -> None:
    """The first gateway relies on the session until it hears of the leave: so long the job takes nothing back."""
    found = {delay_ms: seen_by(delay_ms) for delay_ms in range(200, 270, 2)}
    assert {codes[0] == ErrorCode.NONE for codes, _ in found.values()} == {True, False}
    assert [delay_ms for delay_ms, (codes, again) in found.items() if codes[0] == ErrorCode.NONE and again] == []
