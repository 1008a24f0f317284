"""Moves a group from the tables of one cell to those of another, while neither cell's job runs.

Theory of operation
-------------------
A move is four commits of batches (`commit_steps`). The fence of the tables (`storage.writing.fence`) protects each
commit: a job that still runs on these tables is fenced and stops. A job that starts reads `share_groups` to check
whether it may run (`misplaced_groups`):

    1. the target's share_group_state   a snapshot of each state      not visible, as the target's groups lack the group
    2. the target's groups              group, share-partitions,      both have the group: no job of either cell starts
                                        configs
    3. the source's share_group_state   a tombstone of each state
    4. the source's groups              these rows are removed        only the target has it: its job may start

If a move dies, run it again. Steps 1 and 2 write the rows that the source still has, and steps 3 and 4 remove them from
the source. If a state is already a tombstone in the source, the previous run has written the state to the target. To
give up a move after step 2, move the group back.

The move commits under a query id of its own. A job that starts afterwards finds that another query than that of its
checkpoint was the last to write its tables, and does not use the checkpoint (`stale_checkpoint`). This is necessary,
because the operator state in it is out of date for the group. The delivery log stays in the source.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterable

from sharegroup.core.share_coordinator.durable_rows import state_row, tombstone_row
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.errors import ShareGroupError
from sharegroup.job.commit.commit_steps import Batch, CommitSteps, RowProducer
from sharegroup.job.commit.table_rows import DELETED
from sharegroup.job.lead.job_lead import JobLead
from sharegroup.log_fields import LogFields
from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.rows import DeltaTables
from sharegroup.storage.schemas import (
    ALL_TABLES,
    CHUNK,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_CONFIGS,
    SHARE_GROUP_JOB,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITION_TABLES,
    SHARE_PARTITIONS,
    TableSpec,
)
from sharegroup.storage.writing.delta_table import DeltaTableWriter, DeltaVersions, open_or_create
from sharegroup.storage.writing.torn_log import recover_torn_tables
from sharegroup.storage.writing.versioned_table import Row
from sharegroup.types import ConfigSource, SharePartitionKey

logger = logging.getLogger(__name__)

#: The columns that the table's writer fills in when it writes a row.
_WRITERS_OWN = ("time", CHUNK)
#: Creates a producer of responses and of requests to the other query. The argument is the other query's request topic.
MakeProducer = Callable[[str], RowProducer]


class GroupMoveError(ShareGroupError):
    """The group cannot be moved in its present state. Its rows were not changed."""


class CellTables:
    """The tables of one cell, opened for writing.

    The constructor becomes the leader of the tables, which fences a job that still runs on them. It then completes the
    last batch of the previous leader. `topics` are the two request topics and the response topic, as in
    `JobConfig.topics`. `options` are the storage options. Raises FencedLeaderError if a job becomes the leader
    meanwhile, and KafkaUnavailableError if the rows of the last batch cannot be sent.
    """

    def __init__(
        self,
        tables_path: str,
        topics: tuple[str, str, str],
        producer: MakeProducer,
        options: dict[str, str] | None = None,
    ) -> None:
        self._path, self._options = tables_path, options
        recover_torn_tables(tables_path)
        for spec in ALL_TABLES:
            open_or_create(tables_path, spec, options)
        specs = *SHARE_PARTITION_TABLES, *GROUP_COORDINATOR_TABLES
        versions = [DeltaVersions(tables_path, spec, options) for spec in specs]
        epoch = JobLead(DeltaTableWriter(tables_path, SHARE_GROUP_JOB, options), versions).acquire_epoch()
        group_requests, partition_requests, _ = topics
        self.groups = self._leading_steps(GROUP_COORDINATOR_TABLES, producer(partition_requests), epoch)
        self.states = self._leading_steps(SHARE_PARTITION_TABLES, producer(group_requests), epoch)

    def _leading_steps(self, specs: Iterable[TableSpec], producer: RowProducer, epoch: int) -> CommitSteps:
        steps = CommitSteps([DeltaTableWriter(self._path, spec, self._options) for spec in specs], producer)
        steps.become_leader(epoch)
        steps.complete_last_batch()
        return steps

    def read_rows(self, spec: TableSpec, group_id: str) -> list[Row]:
        """Return a group's rows in a table of current state, without the columns that the table's writer fills in."""
        rows = (row for row in self.groups.current_rows(spec.name) if row["group_id"] == group_id)
        return [{name: value for name, value in row.items() if name not in _WRITERS_OWN} for row in rows]

    def read_group_rows(self, group_id: str) -> dict[str, list[Row]]:
        """Return the group's rows to move, by table. Static configs are left out: each cell's job writes its own."""
        configs = self.read_rows(SHARE_GROUP_CONFIGS, group_id)
        dynamic = [row for row in configs if row["config_source"] == ConfigSource.DYNAMIC_GROUP_CONFIG.value]
        return {
            SHARE_GROUPS.name: self.read_rows(SHARE_GROUPS, group_id),
            SHARE_PARTITIONS.name: self.read_rows(SHARE_PARTITIONS, group_id),
            SHARE_GROUP_CONFIGS.name: dynamic,
        }

    def read_group_states(self, group_id: str) -> dict[SharePartitionKey, ShareGroupOffset]:
        """Return the states of the group, also those of share-partitions that the group does not have."""
        return read_current_states(DeltaTables(self._path, self._options), [group_id])


def check_movable(source: CellTables, target: CellTables, group_id: str, unread: Callable[[CellTables], int]) -> bool:
    """Return whether the group must still be moved; False if only the target has its rows.

    `unread(source)` returns how many requests for the group the source's job has not read yet. Raises GroupMoveError if
    the group does not exist, has members or unread requests, or is being initialized or deleted.
    """
    rows = source.read_group_rows(group_id)
    if not any(rows.values()):
        if any(target.read_group_rows(group_id).values()):
            return False
        raise GroupMoveError(f"group {group_id} does not exist")
    if members := source.read_rows(SHARE_GROUP_MEMBERS, group_id):
        raise GroupMoveError(
            f"group {group_id} has {len(members)} members: stop them, and wait until the job has removed them"
        )
    leaving = [row for row in rows[SHARE_GROUPS.name] if row["group_state"] == "Dead"]
    leaving += [row for row in rows[SHARE_PARTITIONS.name] if row["status"] != "initialized"]
    if leaving:
        raise GroupMoveError(
            f"group {group_id} is being initialized or deleted: start the job, and wait until this is done"
        )
    if found := unread(source):
        raise GroupMoveError(
            f"{found} requests for group {group_id} are unread: start the job of its present cell, and wait until "
            "it has read them"
        )
    return True


def move_group(
    source: CellTables, target: CellTables, group_id: str, after_step: Callable[[int], None] = lambda step: None
) -> None:
    """Move a group from the tables of `source` to those of `target`, in the four steps that the module describes.

    Call `check_movable` first. After each step, `after_step` is called with the number of the step (1 to 4).
    """
    rows = source.read_group_rows(group_id)
    fields = SharePartitionKey._fields
    keys = {SharePartitionKey(*(row[name] for name in fields)) for row in rows[SHARE_PARTITIONS.name]}
    states = {key: state for key, state in source.read_group_states(group_id).items() if key in keys}
    # A move that was given up may have left states in the target, with higher snapshot epochs than those of `states`.
    left = target.read_group_states(group_id)
    written_states = [_snapshot(key, state, left.get(key)) for key, state in sorted(states.items())]
    written_states += [tombstone_row(key) for key in sorted(left.keys() - keys)]
    query_id = f"move-{uuid.uuid4()}"
    steps = (
        (target.states, {SHARE_GROUP_STATE.name: written_states}),
        (target.groups, rows),
        (source.states, {SHARE_GROUP_STATE.name: [tombstone_row(key) for key in sorted(states)]}),
        (source.groups, {name: [{**row, DELETED: True} for row in gone] for name, gone in rows.items()}),
    )
    for number, (tables, written) in enumerate(steps, 1):
        tables.query_id = query_id
        if any(written.values()):
            tables.commit(Batch(0, _now_ms(), tables=written))
        after_step(number)
    logger.info(
        "group %(group)s moved: %(count)d share-partitions",
        LogFields(group=group_id, count=len(rows[SHARE_PARTITIONS.name])),
    )


def _snapshot(key: SharePartitionKey, state: ShareGroupOffset, replaced: ShareGroupOffset | None) -> Row:
    """Return a row with the state. Its snapshot epoch is higher than that of `replaced`, which it replaces."""
    header, batches = state
    snapshot_epoch = header.snapshot_epoch
    if replaced is not None:
        snapshot_epoch = max(snapshot_epoch, replaced.header.snapshot_epoch + 1)
    record = ShareGroupStateRecord(
        RecordKind.SNAPSHOT, key, snapshot_epoch, header.state_epoch, header.leader_epoch,
        header.start_offset, header.delivery_complete_count, tuple(batches),
    )  # fmt: skip
    end_offset = max([header.start_offset, *(batch.last_offset + 1 for batch in batches)])
    return {**key._asdict(), **state_row(record, end_offset)}


def _now_ms() -> int:
    return int(time.time() * 1000)
