"""Brokers that answer nothing for a while: no promise is broken, and defects planted for them are found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from kafka import TopicPartition

from sharegroup.gateway.records import log_reader
from sharegroup.gateway.upstream import cluster
from sharegroup.job.clock.request_clock import RequestClock
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.connections import log_offsets
from sharegroup.kafka_clients.connections.silent_brokers import SilentBrokers
from tests.simulation.brokers import broker_faults
from tests.simulation.run import run

pytestmark = pytest.mark.long

Plant = Callable[[pytest.MonkeyPatch], None]


def the_safe_clock_passes_a_silent_leader(patch: pytest.MonkeyPatch) -> None:
    """The partitions whose leaders answer count as the whole request topic."""
    observe = RequestClock.observe

    def passes(clock: RequestClock, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        are_unread, _ = observe(clock, now_ms, positions)
        ends = {tp.partition: end for tp, end in clock._poll.ends(clock._partitions).items()}
        clock._clock.observe(now_ms, ends)
        return are_unread, clock._clock.safe_ms(clock._read(positions))

    patch.setattr(RequestClock, "observe", passes)


def a_log_of_a_silent_leader_is_empty(patch: pytest.MonkeyPatch) -> None:
    """A partition without an answer begins and ends at 0."""
    offsets = LogPoll._offsets

    def with_zeros(poll: LogPoll, times: Mapping[TopicPartition, int], *more: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(times, 0) | offsets(poll, times, *more)

    patch.setattr(LogPoll, "_offsets", with_zeros)


def a_topic_of_a_silent_leader_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """A topic does not exist while a leader of it is silent."""
    describe = LogPoll.describe

    def without_silent(poll: LogPoll, topics: Collection[str]) -> dict[str, Any]:
        silent = poll._client._silent
        return {
            name: None if found is None or any(leader in silent for leader in found.leaders.values()) else found
            for name, found in describe(poll, topics).items()
        }

    patch.setattr(LogPoll, "describe", without_silent)


def a_gateway_waits_for_a_silent_leader(patch: pytest.MonkeyPatch) -> None:
    """A read of a log waits, whoever leads the partition meanwhile."""
    patch.setattr(cluster, "SLOW_RESPONSE_S", 1e6)
    patch.setattr(log_reader, "READ_TIMEOUT_S", 1e6)


def a_look_up_waits_a_minute(patch: pytest.MonkeyPatch) -> None:
    """The job waits a minute for a leader that answers nothing, before it goes on with the others."""
    patch.setattr(log_offsets, "OFFSETS_TIMEOUT_S", 60.0)


def a_silent_broker_is_never_asked_again(patch: pytest.MonkeyPatch) -> None:
    """Once silent, a broker counts as silent for ever."""

    async def never(brokers: SilentBrokers, node_id: int) -> None:
        await asyncio.get_running_loop().create_future()

    patch.setattr(SilentBrokers, "_try_until_it_answers", never)


_DELAYED = "a silent leader delays only its own"
#: By name: the defect, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, rule)
    for plant, rule in (
        (the_safe_clock_passes_a_silent_leader, "the safe clock waits for requests"),
        (a_log_of_a_silent_leader_is_empty, "the safe clock waits for requests"),
        (a_topic_of_a_silent_leader_is_deleted, _DELAYED),
        (a_gateway_waits_for_a_silent_leader, _DELAYED),
        (a_look_up_waits_a_minute, _DELAYED),
        (a_silent_broker_is_never_asked_again, "everything is delivered"),
    )
}
#: Each defect shows in one of them.
_SEEDS = (23, 24, 3, 8)
_FAULTS, _HOURS = ("silent_leader",), 0.4


@pytest.fixture(autouse=True)
def _long_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many and long ones, so that short runs show much."""
    monkeypatch.setattr(broker_faults, "_SILENCES_MS", (15_000, 45_000))
    monkeypatch.setattr(broker_faults, "_EVERY_MS", 60_000)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_of_silent_leaders_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rule = DEFECTS[name]
    plant(monkeypatch)
    assert any(rule in {violation.rule for violation in run(seed, _HOURS, _FAULTS).violations} for seed in _SEEDS)


def test_silent_leaders_break_no_promise() -> None:
    assert [run(seed, _HOURS, _FAULTS).violations for seed in _SEEDS] == [()] * len(_SEEDS)
