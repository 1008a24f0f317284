"""Gateways and share consumers in virtual time, over the two operators."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.params import thorough
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.wire.wire_habits import HABITS, Habit
from tests.unit.simulation.gateway_world import LOCK_MS, GatewayWorld

DIGEST = """
from tests.unit.simulation.gateway_world import GatewayWorld
world = GatewayWorld(7)
for habit in ("fast", "renewing", "stumbling"):
    world.client(habit)
world.clock.after(60_000, lambda: world.gateways[0].kill())
world.clock.after(70_000, lambda: world.gateways[0].start())
world.run(200)
print(world.trace.digest)
"""


def run_all_habits(seed: int, seconds: float) -> GatewayWorld:
    world = GatewayWorld(seed)
    for habit in HABITS:
        world.client(habit)
    world.run(seconds)
    return world


def test_every_record_is_delivered_and_finished() -> None:
    world = GatewayWorld(1, produce_s=0)
    world.client("fast")
    world.client("strict")
    for _ in range(10):
        world.produce(10)
        world.run(5)
    world.run(30)
    assert sorted(offset for _, offset in world.witness.finished) == list(range(100))
    counts = {count for delivery in world.witness.deliveries for _, _, count in delivery.acquired}
    assert (counts, world.job.rejected, world.problems()) == ({1}, [], [])


def test_a_run_is_the_same_twice_whatever_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_all_habits_are_heard_of() -> None:
    world = run_all_habits(3, 600)
    kinds = {t for sent, _ in world.witness.answers for _, _, types in sent.batches for t in types}
    assert kinds >= {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW}
    codes = {code for _, code in world.witness.answers}
    assert codes == {ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE}
    assert len({delivery.member_id for delivery in world.witness.deliveries}) == len(HABITS)
    assert world.problems() == []


def test_members_of_a_killed_gateway_go_on_at_another() -> None:
    world = GatewayWorld(2, produce_s=2)
    client = world.client("fast")
    world.run(30)
    world.gateways[client._gateway].kill()
    before = len(world.witness.deliveries)
    world.run(60)
    after = world.witness.deliveries[before:]
    assert after
    assert ("let_go", "m0", "its connection ends") in world.witness.told
    assert world.problems() == []


def test_a_gateway_that_starts_again_serves_again() -> None:
    world = GatewayWorld(2, gateways=1, produce_s=2)
    world.client("fast")
    world.run(30)
    for end in (world.gateways[0].kill, world.gateways[0].stop):
        end()
        world.run(20)
        world.gateways[0].start()
        before = len(world.witness.deliveries)
        world.run(60)
        assert len(world.witness.deliveries) > before
    assert world.problems() == []


def test_a_gateway_that_stands_still_answers_late() -> None:
    world = GatewayWorld(4, gateways=1, produce_s=2)
    world.client("fast")
    world.run(30)
    world.gateways[0].pause(20_000)
    world.run(1)
    before = len(world.witness.deliveries)
    world.run(18)
    assert len(world.witness.deliveries) == before
    world.run(30)
    assert len(world.witness.deliveries) > before
    assert world.problems() == []


@pytest.mark.parametrize("skew_ms", [-3_600_000, *thorough(3_600_000)])
def test_a_wrong_clock_does_not_matter(skew_ms: int) -> None:
    world = GatewayWorld(5, gateways=0, produce_s=2)
    world.gateway(skew_ms)
    world.client("fast")
    world.run(60)
    left = {delivery.lock_end_ms - delivery.made_ms for delivery in world.witness.deliveries}
    assert min(left) > LOCK_MS // 2  # some are read ahead
    assert LOCK_MS - 1_000 < max(left) <= LOCK_MS  # what it learns of the time may be a millisecond behind
    assert (world.witness.violations, world.problems()) == ([], [])


def test_a_member_that_dies_leaves_its_records_to_others() -> None:
    world = GatewayWorld(6, gateways=1, produce_s=0)
    dying = world.client("slow")
    world.run(3)
    world.produce(5)
    world.run(1)
    assert [delivery.member_id for delivery in world.witness.deliveries] == ["m0"]
    dying.die(seen_after_ms=0)
    world.client("fast")
    world.run(10)
    again = [delivery for delivery in world.witness.deliveries if delivery.member_id == "m1"]
    assert [delivery.acquired for delivery in again] == [((0, 4, 2),)]


def test_a_member_that_stands_still_loses_its_records_and_goes_on_later() -> None:
    world = GatewayWorld(6, gateways=1, produce_s=0)
    still = world.client("slow")
    world.run(3)
    world.produce(5)
    world.run(1)
    still.pause(LOCK_MS + 5_000)
    world.client("fast")
    world.run(LOCK_MS / 1000 + 2)
    assert [(d.member_id, d.acquired) for d in world.witness.deliveries] == [("m0", ((0, 4, 1),)), ("m1", ((0, 4, 2),))]
    world.run(60)
    late = [code for sent, code in world.witness.answers if sent.member_id == "m0"]
    assert late in ([ErrorCode.NONE], [ErrorCode.INVALID_RECORD_STATE])  # finished by then: below the start offset
    assert world.problems() == []


def test_a_member_that_leaves_ends_its_session_first() -> None:
    world = GatewayWorld(6, gateways=1, produce_s=2)
    client = world.client("fast")
    world.run(20)
    client.leave()
    world.run(60)
    assert client.has_ended
    assert world.witness.told[-2:] == [("let_go", "m0", "ends its session"), ("left", "m0")]


@pytest.mark.parametrize("seed", [1, *thorough(0, 2)])
def test_bad_networks_break_nothing(seed: int) -> None:
    world = GatewayWorld(seed, weather=Weather(slow_chance=0.05, slow_ms=8_000, lost_request=0.02, lost_answer=0.02))
    for habit in ("fast", "strict", "releasing"):
        world.client(habit)
    world.run(600)
    assert (world.witness.violations, world.problems()) == ([], [])
    assert len(world.witness.finished) > 100


def test_what_was_finished_after_its_lock_is_not_delivered_again() -> None:
    """Members whose work ends as their locks do: their own demand is given the same records again meanwhile."""
    violations = {}
    for seed in range(12):
        world = GatewayWorld(seed, gateways=1, produce_s=15)
        world.client("at_lock_end")
        world.run(120)
        violations[seed] = world.witness.violations
    assert violations == {seed: [] for seed in range(12)}


def test_a_clock_that_is_set_back_does_not_matter() -> None:
    world = GatewayWorld(5, gateways=1, produce_s=2)
    world.client("fast")
    world.run(60)
    world.gateways[0].skew_ms -= 20_000
    world.run(60)
    assert longest_lock_ms(world) <= LOCK_MS + 100


def test_rows_that_are_sent_twice_do_not_matter() -> None:
    longest = {}
    for seed in range(1, 4):
        world = GatewayWorld(seed, gateways=1, produce_s=2, weather=Weather(slow_chance=0, lost_answer=0.02))
        world.client("fast")
        world.run(300)
        longest[seed] = longest_lock_ms(world)
    assert max(longest.values()) <= LOCK_MS + 100


def longest_lock_ms(world: GatewayWorld) -> int:
    """What members were told of their locks, at most."""
    return max(delivery.lock_end_ms - delivery.made_ms for delivery in world.witness.deliveries)


#: It takes longer than any test over what it was given.
BUSY = Habit("busy", size=HABITS["fast"].size, work_ms=(3_600_000, 3_600_000))


@pytest.mark.parametrize("goes_elsewhere", [False, True])
def test_what_a_named_client_was_sent_is_given_to_its_next_process_before_anybody_else(goes_elsewhere: bool) -> None:
    world = GatewayWorld(6, produce_s=0, has_names=True)
    killed = world.client(BUSY, "w")
    world.produce(10)
    world.run(30)
    assert [delivery.acquired for delivery in world.witness.deliveries] == [(AcquiredRange(0, 9, 1),)]
    killed.die(0)
    if goes_elsewhere:
        world.gateways[killed._gateway].kill()
    world.client("fast", "x")
    world.run(120)  # longer than locks and sessions of dynamic members
    assert len(world.witness.deliveries) == 1
    world.client("fast", "w")
    world.run(60)  # its answers come with those of its fetches
    assert [(delivery.member_id, delivery.acquired) for delivery in world.witness.deliveries[1:]] == [
        ("w", (AcquiredRange(0, 9, 2),))
    ]
    assert sorted(offset for _, offset in world.witness.finished) == list(range(10))
    assert world.problems() == []


def test_a_named_client_that_leaves_gives_back_what_it_has_and_its_name() -> None:
    world = GatewayWorld(6, produce_s=0, has_names=True)
    leaving = world.client(BUSY, "w")
    world.produce(10)
    world.run(30)
    leaving.leave()
    world.run(5)
    world.client("fast", "x")
    world.run(60)
    assert {delivery.member_id for delivery in world.witness.deliveries[1:]} == {"x"}
    assert sorted(offset for _, offset in world.witness.finished) == list(range(10))


def test_of_two_clients_with_one_name_the_latest_is_served_and_the_other_one_ends() -> None:
    world = GatewayWorld(6, produce_s=2, has_names=True)
    first = world.client("fast", "w")
    world.run(30)
    latest = world.client("fast", "w")
    world.run(60)
    assert (first.has_ended, latest.has_ended) == (True, False)
    before = len(world.witness.deliveries)
    world.run(30)
    assert len(world.witness.deliveries) > before
    assert world.problems() == []
