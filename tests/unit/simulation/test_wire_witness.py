"""What the judge is told of acknowledgements at gateways: whether they were sent within their locks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sharegroup.gateway.sessions.holdings import Holdings
from sharegroup.gateway.sessions.read_ahead_buffer import LockedRange
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.simulation.judges.judge import Judge
from tests.simulation.wire.wire_observer import Acknowledgement, Delivery, Place
from tests.simulation.wire.wire_witness import AHEAD_MS, Witness
from tests.unit.simulation.gateway_world import LOCK_MS, GatewayWorld

#: The latest time at which a lock may end.
OVER_MS = LOCK_MS + AHEAD_MS
RULE = "an acknowledgement after its lock"


class Watched:
    """A world whose clients are heard by the judge."""

    def __init__(self, seed: int = 1, longest_lock_ms: int = LOCK_MS) -> None:
        self.world = GatewayWorld(seed, gateways=1, produce_s=15)
        world = self.world
        self.judge = Judge(world.clock, world.trace, world.kafka)
        self.witness = Witness(
            world.clock,
            world.trace,
            world.kafka,
            self.judge,
            lambda _: 60_000,
            lambda _: longest_lock_ms,
            lambda _: LOCK_MS,
        )
        world.side.observer = self.witness
        self.place = Place("g", world.kafka.topics["orders"].topic_id, 0)

    def rules(self) -> list[str]:
        return [violation.rule for violation in self.judge.violations]


class Member(Watched):
    """One that was given a record, with 5 s of its lock left: others of the response were acquired before."""

    def __init__(self) -> None:
        super().__init__()
        self.world.produce(1)
        self.witness.heartbeat_answered("m", "g", self.world.clock.now_ms)
        self.gets(1, (0,))
        self._sent = 0

    def gets(self, count: int, records: tuple[int, ...], member_id: str = "m") -> None:
        """It, or another member, is given offset 0, with these records."""
        now_ms, acquired = self.world.clock.now_ms, (AcquiredRange(0, 0, count),)
        self.witness.delivered(Delivery(self.place, member_id, acquired, records, now_ms, now_ms + 5_000))

    def asks(self, kind: AcknowledgeType, code: int | None, after_ms: int = 0) -> None:
        """It sends a request after a while, which is answered at once."""
        self.world.run(after_ms / 1000)
        self._sent += 1
        now_ms, is_renewal = self.world.clock.now_ms, kind is AcknowledgeType.RENEW
        batches = (AcknowledgementBatch(0, 0, (kind,)),)
        acknowledgement = Acknowledgement(self._sent, self.place, "m", batches, is_renewal, now_ms)
        self.witness.acknowledge_sent(acknowledgement)
        self.witness.acknowledge_answered(acknowledgement, code, LOCK_MS)


@pytest.mark.parametrize(("after_ms", "rules"), [(5_001, []), (OVER_MS, []), (OVER_MS + 1, [RULE])])
def test_an_acknowledgement_is_in_time_while_the_longest_lock_lasts(after_ms: int, rules: list[str]) -> None:
    member = Member()
    member.asks(AcknowledgeType.ACCEPT, 0, after_ms)
    assert member.rules() == rules


def test_what_is_refused_is_not_judged() -> None:
    member = Member()
    member.asks(AcknowledgeType.ACCEPT, 121, OVER_MS + 1)
    assert member.rules() == []


@pytest.mark.parametrize(
    ("code", "after_ms", "rules"), [(0, LOCK_MS, []), (0, LOCK_MS + 1, [RULE]), (None, LOCK_MS + 1, [])]
)
def test_a_renewal_moves_the_locks_end_and_one_without_an_answer_leaves_it_open(
    code: int | None, after_ms: int, rules: list[str]
) -> None:
    member = Member()
    member.asks(AcknowledgeType.RENEW, code, LOCK_MS)
    member.asks(AcknowledgeType.ACCEPT, 0, after_ms)
    assert member.rules() == rules


def test_a_renewal_comes_within_its_lock_as_well() -> None:
    member = Member()
    member.asks(AcknowledgeType.RENEW, 0, OVER_MS + 1)
    assert member.rules() == [RULE]


def test_an_offset_that_lost_its_record_is_held_by_its_newest_delivery() -> None:
    member = Member()
    member.world.run(LOCK_MS / 1000)
    member.gets(2, ())  # an unclean election has put a hole in its place
    member.asks(AcknowledgeType.GAP, 0, 1)
    assert member.rules() == []


@pytest.mark.parametrize(("after_ms", "rules"), [(LOCK_MS - 1, ["held by another"]), (LOCK_MS + 1, [])])
def test_what_a_member_has_renewed_nobody_else_gets(after_ms: int, rules: list[str]) -> None:
    member = Member()
    member.asks(AcknowledgeType.RENEW, 0, 4_000)
    member.world.run(after_ms / 1000)
    member.gets(2, (0,), "other")
    assert member.rules() == rules


def rules_of_members_who_are_late() -> set[str]:
    found: set[str] = set()
    for seed in range(4):
        watched = Watched(seed)
        for habit in ("at_lock_end", "slow_beyond_lock", "renewing"):
            watched.world.client(habit)
        watched.world.run(300)
        assert watched.judge.acknowledged > 0
        found |= set(watched.rules())
    return found


@pytest.mark.parametrize(("is_unused", "rules"), [(True, []), (False, ["held by another"])])
def test_unused_records_are_let_go_by_a_request_that_renews_others(is_unused: bool, rules: list[str]) -> None:
    member = Member()
    member.asks(AcknowledgeType.RENEW, 0)
    released = (AcknowledgementBatch(0, 0, (AcknowledgeType.RELEASE,)),)
    unused = released if is_unused else ()
    request = Acknowledgement(9, member.place, "m", released, True, member.world.clock.now_ms, unused)
    member.witness.acknowledge_sent(request)
    member.witness.acknowledge_answered(request, 0, LOCK_MS)
    member.gets(1 if is_unused else 2, (0,), "another")
    assert member.rules() == rules


def test_members_who_are_late_are_refused() -> None:
    assert rules_of_members_who_are_late() == set()


def test_a_gateway_that_takes_locks_to_last_longer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_out = Holdings.add

    def longer(holdings: Holdings, grants: Iterable[LockedRange], now_ms: int) -> None:
        handed_out(holdings, [g._replace(lock_deadline_ms=g.lock_deadline_ms + 60_000) for g in grants], now_ms)

    monkeypatch.setattr(Holdings, "add", longer)
    assert RULE in rules_of_members_who_are_late()
