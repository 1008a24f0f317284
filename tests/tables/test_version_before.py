"""The tables of the version before, read by this one without their checkpoint."""

from __future__ import annotations

from pathlib import Path

from sharegroup.commit.table_upgrade import refuse_older_checkpoints, upgrade_tables
from sharegroup.tables import read_group, read_share_group_offsets
from sharegroup.tables.rows import open_table
from sharegroup.tables.schemas import (
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_PARTITION_TABLES,
)
from sharegroup.tables.state_table import read_states
from tests.integration.earlier_job import GROUP, IN_FLIGHT, MEMBER, TOPIC, unpack
from tests.tables.job_tables import T0, start


def test_a_start_on_them_finds_everything(tmp_path: Path) -> None:
    unpack(tmp_path)
    tables = tmp_path / "tables"
    refuse_older_checkpoints(str(tables), ["checkpoint"], lambda path: True)
    names = {"group_instance_id", "incarnation_id"}  # what that version's members do not have
    assert names.isdisjoint(field.name for field in open_table(str(tables), SHARE_GROUP_MEMBERS).schema().fields)
    upgrade_tables(str(tables), T0)
    assert names <= {field.name for field in open_table(str(tables), SHARE_GROUP_MEMBERS).schema().fields}
    for specs in (GROUP_COORDINATOR_TABLES, SHARE_PARTITION_TABLES):
        steps, _ = start(tables, specs=specs)
        assert sum(steps.positions.values()) > 0

    (state,) = read_states(open_table(str(tables), SHARE_GROUP_STATE)).values()
    found = [(first, last, kind.name, count) for first, last, kind, count, _, _ in state.state_batches]
    assert found == IN_FLIGHT
    group = read_group(str(tables), GROUP)
    assert group is not None
    assert [(member.member_id, member.subscribed_topic_names) for member in group.members] == [(MEMBER, (TOPIC,))]
    (offset,) = read_share_group_offsets(str(tables), GROUP)
    assert (offset.start_offset, offset.delivery_complete_count) == (0, 2)
