"""Situations that a test with a real broker cannot create: a missing leader, and a group that stays Dead."""

from __future__ import annotations

from typing import cast

import pytest
from kafka import TopicPartition
from kafka.errors import LeaderNotAvailableError

from sharegroup.cli.options.output import Output
from sharegroup.cli.share_groups.arguments import Arguments
from sharegroup.cli.share_groups.deleting import delete_groups
from sharegroup.cli.share_groups.describing import describe
from sharegroup.cli.share_groups.reset_plan import reset_plan
from sharegroup.kafka_clients.admin import Coordinator, GroupListing, ShareGroupAdmin, ShareGroupDescription


class _Away:
    """An admin client of a cluster that has a partition without a leader, and a group that is Dead."""

    def leaders(self, topics: object) -> dict[TopicPartition, int]:
        return {TopicPartition("t", 0): 1, TopicPartition("t", 1): -1}

    def list_groups(self) -> list[GroupListing]:
        return [GroupListing("g", "Dead", "share", "share")]

    def describe_groups(self, group_ids: object, *, missing_ok: bool) -> dict[str, ShareGroupDescription]:
        return {"g": ShareGroupDescription("g", "Dead", 1, 1, "simple", Coordinator(1, "h", 1), (), None)}

    def list_groups_offsets(self, group_ids: object) -> dict[str, dict[object, object]]:
        return {"g": {}}


AWAY = cast(ShareGroupAdmin, _Away())


def test_a_reset_without_a_leader_is_rejected() -> None:
    arguments = Arguments(reset_offsets=True, group=("g",), topic=("t",), to_latest=True, execute=True)
    with pytest.raises(LeaderNotAvailableError, match='The partitions "t-1" have no leader'):
        reset_plan(AWAY, arguments)


@pytest.mark.parametrize("kind", [{}, {"members": True}, {"state": ""}])
def test_a_dead_group_does_not_exist(kind: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    describe(AWAY, Arguments(describe=True, group=("g",), **kind), Output())
    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip()) == ("", "Error: Share group 'g' does not exist.")


def test_a_dead_group_is_not_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert delete_groups(AWAY, Arguments(delete=True, all_groups=True), Output()) == 1
    assert "* Group 'g' could not be deleted due to: Share group 'g' group state is DEAD." in capsys.readouterr().err
