"""The judge finds what is wrong: defects, planted in the code that runs, and what it says of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sharegroup.config.keys.offset_reset import AutoOffsetReset
from sharegroup.core.group_coordinator import CoordinatorResult, ReleaseMember, ShareGroup, share_group
from sharegroup.core.group_coordinator.assignors import SubscribedTopicDescriber
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.operators.share_partition.incarnations import Incarnations
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.share_partition import SharePartition
from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.record_state import ACQUIRED
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.job.commit import commit_steps
from sharegroup.job.commit.current_rows import CurrentRows
from sharegroup.job.knowledge.known_configs import KnownConfigs
from sharegroup.job.lead.stale_checkpoint import Checkpoint
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.storage.writing.versioned_table import Row, Write
from sharegroup.types import Cause
from tests.simulation.run import run

pytestmark = pytest.mark.thorough

Plant = Callable[[pytest.MonkeyPatch], None]


def locks_end_early(patch: pytest.MonkeyPatch) -> None:
    """Records are given out while somebody holds them: locks are not looked at."""
    expire = ManagedPartition.expire
    patch.setattr(ManagedPartition, "expire", lambda led, clock_ms, config: expire(led, clock_ms + 60_000, config))


def start_passes_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """The start offset goes over a record that somebody holds."""
    advance = SharePartition._advance

    def too_far(window: SharePartition) -> None:
        advance(window)
        for first, last, record in list(window._window.items(window.start_offset, window.start_offset)):
            if record.state is ACQUIRED:
                assert first <= last
                window._move_start(window.start_offset + 1)

    patch.setattr(SharePartition, "_advance", too_far)


def acknowledgements_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """Each is answered OK, and nothing is done."""
    patch.setattr(SharePartition, "acknowledge", lambda *_: Outcome())


def counts_stay(patch: pytest.MonkeyPatch) -> None:
    """A record that is delivered again keeps its delivery count."""
    acquire = SharePartition.acquire

    def same_count(window: SharePartition, *arguments: Any) -> Outcome:
        found = acquire(window, *arguments)
        transitions = tuple(t._replace(delivery_count=1) for t in found.transitions)
        return found._replace(
            transitions=transitions, response=tuple(r._replace(delivery_count=1) for r in found.response)
        )

    patch.setattr(SharePartition, "acquire", same_count)


def an_older_config_is_used(patch: pytest.MonkeyPatch) -> None:
    """Share-partitions start as if nothing had been set."""
    patch.setattr(KnownConfigs, "get_offset_reset", lambda *_: AutoOffsetReset.parse("latest"))


def releases_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    """A release is decided and written, and the window does not follow."""
    apply = SharePartition._apply

    def but_releases(window: SharePartition, transition: Any) -> None:
        if transition.cause is not Cause.RELEASE:
            apply(window, transition)

    patch.setattr(SharePartition, "_apply", but_releases)


def chunks_lose_rows(patch: pytest.MonkeyPatch) -> None:
    """A chunk is written with the rows that change, and without those that stay."""
    stage = CurrentRows.stage

    def only_changed(current: CurrentRows, rows: Iterable[Row], now_ms: int) -> Write:
        changed = list(rows)
        write = stage(current, changed, now_ms)
        keys = set(map(current._key, changed))
        return write._replace(rows=[row for row in write.rows if current._key(row) in keys])

    patch.setattr(CurrentRows, "stage", only_changed)


def a_share_partition_has_no_reader(patch: pytest.MonkeyPatch) -> None:
    """The assignor passes over the first partition of each topic."""
    assignable = SubscribedTopicDescriber.assignable_partitions
    patch.setattr(
        SubscribedTopicDescriber, "assignable_partitions", lambda topics, topic_id: assignable(topics, topic_id)[1:]
    )


def a_restart_releases(patch: pytest.MonkeyPatch) -> None:
    """What a static member holds goes to others when its next process joins."""
    join_or_stay = ShareGroup._join_or_stay

    def released(group: ShareGroup, request: HeartbeatRequest, *arguments: Any) -> CoordinatorResult:
        before = group.metadata.members.get(request.member_id)
        result = join_or_stay(group, request, *arguments)
        if before is None or not before.is_static or before.incarnation_id == request.incarnation_id:
            return result
        topics = tuple(group.metadata.assignable_topics().values())
        return result._replace(releases=(ReleaseMember(before.group_id, before.member_id, -1, topics),))

    patch.setattr(ShareGroup, "_join_or_stay", released)


def a_static_session_ends_early(patch: pytest.MonkeyPatch) -> None:
    """A static member that is away is removed after a minute."""
    patch.setattr(share_group, "session_timeout_ms", lambda *_: 65_000)


def a_name_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A process that joins by a known name is a new member."""

    def new_id(_: GroupMetadata, request: HeartbeatRequest, is_join: bool) -> str:
        return f"{request.incarnation_id}" if is_join and request.group_instance_id else request.member_id

    patch.setattr(share_group, "resolve_member_id", new_id)


def the_process_before_is_served(patch: pytest.MonkeyPatch) -> None:
    """Share-partitions do not look at which process of a member asks."""
    patch.setattr(Incarnations, "is_fenced", lambda *_: False)


def the_member_itself_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """Share-partitions take the process that joined for the one that was replaced."""
    is_fenced = Incarnations.is_fenced

    def inverted(known: Incarnations, partition: int, member_id: str, incarnation_id: str | None, *place: int) -> bool:
        is_known = is_fenced(known, partition, member_id, "nobody's", *place)
        return is_known and not is_fenced(known, partition, member_id, incarnation_id, *place)

    patch.setattr(Incarnations, "is_fenced", inverted)


def a_connection_that_ends_releases(patch: pytest.MonkeyPatch) -> None:
    """What a static member at a gateway was sent goes to others as soon as its client is gone."""
    patch.setattr(MemberPartition, "stop_fetching", MemberPartition.close)


def repeated_batches_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A batch that runs again with other effects is skipped as if it had the same."""
    patch.setattr(commit_steps, "reject_other_effects", lambda *_: None)


def checkpoints_of_other_shards_are_continued(patch: pytest.MonkeyPatch) -> None:
    """A job with another number of shards continues from its checkpoint."""
    patch.setattr(Checkpoint, "changed_settings", lambda *_: [])


#: By name: the defect, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, rule)
    for plant, rule in (
        (locks_end_early, "an acknowledgement in time counts"),
        (start_passes_what_is_held, "finished below the start offset"),
        (acknowledgements_are_dropped, "finished and delivered again"),
        (counts_stay, "count below deliveries"),
        (an_older_config_is_used, "a config that was answered is in force"),
        (releases_are_not_replayed, "one final state"),
        (chunks_lose_rows, "everything is delivered"),
        (a_share_partition_has_no_reader, "everything is delivered"),
    )
}


#: The same of static members, which are restarted.
STATIC_DEFECTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, rule)
    for plant, rule in (
        (a_restart_releases, "held by another"),
        (a_static_session_ends_early, "held by another"),
        (a_name_is_forgotten, "an acknowledgement in time counts"),
        (the_process_before_is_served, "a fenced process is refused"),
        (the_member_itself_is_fenced, "only who is replaced is fenced"),
    )
}
#: A seed without faults that shows them all: a group from the beginning, members that release and are slow.
_SEED = 4


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rule = DEFECTS[name]
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(_SEED, 0.4, ()).violations}


@pytest.mark.long
@pytest.mark.parametrize("name", STATIC_DEFECTS)
def test_a_planted_defect_of_static_members_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rule = STATIC_DEFECTS[name]
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(_SEED, 0.4, ("static_members",)).violations}


#: Gateways, and slow members that are restarted while they have records.
_SEED_OF_GATEWAYS, _FAULTS_OF_GATEWAYS = 11, ("static_members", "slow_members")


@pytest.mark.long
@pytest.mark.parametrize("is_planted", [True, False])
def test_a_planted_defect_of_static_members_at_gateways_is_found(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_planted:
        a_connection_that_ends_releases(monkeypatch)
    found = {violation.rule for violation in run(_SEED_OF_GATEWAYS, 0.4, _FAULTS_OF_GATEWAYS).violations}
    assert found == ({"held by another"} if is_planted else set())


#: Enough seeds that several of them run a batch again with other effects.
_SEEDS_OF_REPEATED = range(10)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["requests_trimmed", "snapshot_rules"])
def test_a_planted_defect_of_repeated_batches_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated_batches_are_not_compared(monkeypatch)
    assert any(run(seed, 1.0, (fault,)).violations for seed in _SEEDS_OF_REPEATED)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["requests_trimmed", "snapshot_rules"])
def test_repeated_batches_without_a_defect_are_clean(fault: str) -> None:
    assert [run(seed, 1.0, (fault,)).violations for seed in range(3)] == [()] * 3


@pytest.mark.long
@pytest.mark.parametrize("is_planted", [True, False])
def test_a_planted_defect_of_shards_is_found(is_planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_planted:
        checkpoints_of_other_shards_are_continued(monkeypatch)
    found = {violation.rule for seed in (11, 14) for violation in run(seed, 1.0, ("reshard", "crash")).violations}
    assert found == ({"everything is delivered"} if is_planted else set())


def test_without_a_defect_nothing_is_found() -> None:
    assert run(_SEED, 0.4, ()).violations == ()
    assert run(_SEED, 0.4, ("static_members",)).violations == ()
