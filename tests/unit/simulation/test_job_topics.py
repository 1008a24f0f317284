"""The job's own topics grow, carry transactions and lose responses, and elections are unclean: no promise is broken.
Defects that are planted for these faults are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.job.clock.request_clock import RequestClock
from sharegroup.kafka_clients import response_partitions
from sharegroup.kafka_clients.response_partitions import ResponsePartitions
from tests.simulation.job import job_topic_faults
from tests.simulation.run import run

pytestmark = pytest.mark.long

Plant = Callable[[pytest.MonkeyPatch], None]


def readers_stay_in_their_partition(patch: pytest.MonkeyPatch) -> None:
    """The response topic is read where a key was at first."""
    patch.setattr(ResponsePartitions, "follow_partition_count", lambda *_: None)


def new_request_partitions_are_not_watched(patch: pytest.MonkeyPatch) -> None:
    """The request topic has as many partitions as at first."""
    count = RequestClock._count_partitions
    patch.setattr(RequestClock, "_count_partitions", lambda clock: bool(clock._partitions) or count(clock))


def the_safe_clock_passes_an_open_transaction(patch: pytest.MonkeyPatch) -> None:
    """What cannot be read yet does not count."""
    observe = RequestClock.observe

    def passes(clock: RequestClock, now_ms: int, positions: Mapping[int, int]) -> tuple[bool, int]:
        ends = clock._poll.ends

        def stable(partitions: Collection[Any], read_committed: bool = True) -> dict[Any, int]:
            return ends(partitions, True)

        clock._poll.ends = stable  # type: ignore[method-assign]
        try:
            return observe(clock, now_ms, positions)
        finally:
            clock._poll.ends = ends  # type: ignore[method-assign]

    patch.setattr(RequestClock, "observe", passes)


def readers_stay_at_a_deleted_offset(patch: pytest.MonkeyPatch) -> None:
    """A reader of responses whose next one retention has deleted asks for it forever."""
    patch.setattr(response_partitions, "OFFSET_RESET", "none")


def an_unclean_election_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A log that was cut is like any other."""
    patch.setattr(ManagedPartition, "find_election_cut", lambda *_: None)


def an_election_is_seen_by_the_end_alone(patch: pytest.MonkeyPatch) -> None:
    """Who looks when the log has grown beyond its old end sees nothing."""
    cut = ManagedPartition.find_election_cut
    patch.setattr(ManagedPartition, "find_election_cut", lambda led, log: cut(led, log._replace(epoch_start=None)))


_SAFE = "the safe clock waits for requests"
_TOLD = "an unclean election is told"
_UNSEEN = "archived unseen"
_DELIVERED = "everything is delivered"
_GROWS, _ELECTS, _TRIMS = ("job_topics_grow",), ("unclean_election",), ("responses_trimmed",)
_WRITES = "job_transactions", "slow_members", "dying_members"
#: The defect, the faults and a seed that show it, and the rule by which it must be found.
DEFECTS = [
    (readers_stay_in_their_partition, _GROWS, 7, _UNSEEN),
    (new_request_partitions_are_not_watched, _GROWS, 2, _SAFE),
    (the_safe_clock_passes_an_open_transaction, _WRITES, 4, _SAFE),
    (readers_stay_at_a_deleted_offset, _TRIMS, 3, _DELIVERED),
    (an_unclean_election_is_not_noticed, _ELECTS, 4, _TOLD),
    (an_election_is_seen_by_the_end_alone, _ELECTS, 3, _TOLD),
]


@pytest.fixture(autouse=True)
def _many_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short runs show much."""
    monkeypatch.setattr(job_topic_faults, "_GROW_EVERY_MS", 120_000)
    monkeypatch.setattr(job_topic_faults, "_TRIM_EVERY_MS", 30_000)


@pytest.mark.parametrize(("plant", "faults", "seed", "rule"), DEFECTS)
def test_a_planted_defect_of_job_topics_is_found(
    plant: Plant, faults: Collection[str], seed: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(seed, 0.4, faults).violations}


@pytest.mark.parametrize(
    ("faults", "seed"),
    [(_GROWS, 0), (_GROWS, 7), (_GROWS, 8), (_WRITES, 4), (_ELECTS, 3), (_ELECTS, 4), (_TRIMS, 3), (_TRIMS, 49)],
)
def test_faults_of_job_topics_break_no_promise(faults: Collection[str], seed: int) -> None:
    assert run(seed, 0.4, faults).violations == ()
