"""Moving a group from one cell's tables to another's, while neither cell's job runs.

Theory of operation
-------------------
A move is four commits of batches (`commit_steps`), each behind the fence of its tables, so that a job that runs all the
same ends. At each moment a job that is started sees by `share_groups` whether it may (`strayed_groups`):

    1. the target's share_group_state   a snapshot of each state      nobody sees it: the group is not in its groups
    2. the target's groups              group, share-partitions,      it is in both: no job of either cell starts
                                        configs
    3. the source's share_group_state   a tombstone of each state
    4. the source's groups              all these rows go             it is in the target: its job may start

It dies anywhere, and is run again: 1 and 2 put the rows that the source still has, 3 and 4 remove them. States that are
tombstones already were put by the run before. Who gives up after step 2 moves the group back, by the same steps.

The commits are of a query of their own, so the checkpoints of both jobs are stale after them (`stale_checkpoint`): what
the operators knew of the group in them is out of date. What was delivered stays in the source's delivery_log.
"""

from __future__ import annotations

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
from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.rows import Tables
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

#: What the writer of a row puts there.
_WRITERS_OWN = ("time", CHUNK)
#: Makes what answers and requests to the other query go out by; the name is that of the other query's topic.
MakeProducer = Callable[[str], RowProducer]


class GroupMoveError(ShareGroupError):
    """The group cannot be moved as things are; nothing was changed."""


class CellTables:
    """One cell's tables, led: whoever led them is fenced, and what was owed is done.

    `topics` are as `JobConfig.topics`, `options` the storage's. Raises FencedLeaderError, KafkaUnavailableError.
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
        led = [DeltaVersions(tables_path, spec, options) for spec in specs]
        epoch = JobLead(DeltaTableWriter(tables_path, SHARE_GROUP_JOB, options), led).take()
        group_requests, partition_requests, _ = topics
        self.groups = self._led(GROUP_COORDINATOR_TABLES, producer(partition_requests), epoch)
        self.states = self._led(SHARE_PARTITION_TABLES, producer(group_requests), epoch)

    def _led(self, specs: Iterable[TableSpec], producer: RowProducer, epoch: int) -> CommitSteps:
        steps = CommitSteps([DeltaTableWriter(self._path, spec, self._options) for spec in specs], producer)
        steps.lead(epoch)
        steps.complete_last_batch()
        return steps

    def rows(self, spec: TableSpec, group_id: str) -> list[Row]:
        """A group's rows of current state."""
        rows = (row for row in self.groups.current_rows(spec.name) if row["group_id"] == group_id)
        return [{name: value for name, value in row.items() if name not in _WRITERS_OWN} for row in rows]

    def group_rows(self, group_id: str) -> dict[str, list[Row]]:
        """What a move takes along, by table: not what the file says, which each cell's job writes itself."""
        configs = self.rows(SHARE_GROUP_CONFIGS, group_id)
        dynamic = [row for row in configs if row["config_source"] == ConfigSource.DYNAMIC_GROUP_CONFIG.value]
        return {
            SHARE_GROUPS.name: self.rows(SHARE_GROUPS, group_id),
            SHARE_PARTITIONS.name: self.rows(SHARE_PARTITIONS, group_id),
            SHARE_GROUP_CONFIGS.name: dynamic,
        }

    def group_states(self, group_id: str) -> dict[SharePartitionKey, ShareGroupOffset]:
        """The states of its share-partitions."""
        named = SharePartitionKey._fields
        keys = {SharePartitionKey(*(row[name] for name in named)) for row in self.rows(SHARE_PARTITIONS, group_id)}
        states = read_current_states(Tables(self._path, self._options), [group_id])
        return {key: state for key, state in states.items() if key in keys}


def check_movable(source: CellTables, target: CellTables, group_id: str, unread: Callable[[CellTables], int]) -> bool:
    """Whether there is something to move; False when that was done.

    `unread` counts the group's requests that the source's job has not read.
    Raises GroupMoveError.
    """
    rows = source.group_rows(group_id)
    if not any(rows.values()):
        if any(target.group_rows(group_id).values()):
            return False
        raise GroupMoveError(f"there is no group {group_id}")
    if members := source.rows(SHARE_GROUP_MEMBERS, group_id):
        raise GroupMoveError(f"group {group_id} has {len(members)} members: stop them, and let the job see it")
    leaving = [row for row in rows[SHARE_GROUPS.name] if row["group_state"] == "Dead"]
    leaving += [row for row in rows[SHARE_PARTITIONS.name] if row["status"] != "initialized"]
    if leaving:
        raise GroupMoveError(f"group {group_id} is being initialized or deleted: let the job finish that")
    if found := unread(source):
        raise GroupMoveError(f"{found} requests for group {group_id} are not read yet: let the job read them")
    return True


def move_group(
    source: CellTables, target: CellTables, group_id: str, after_step: Callable[[int], None] = lambda step: None
) -> None:
    """The four steps; `check_movable` comes first. `after_step` is called after each."""
    rows, states = source.group_rows(group_id), source.group_states(group_id)
    query_id = f"move-{uuid.uuid4()}"
    steps = (
        (target.states, {SHARE_GROUP_STATE.name: [_snapshot(key, state) for key, state in sorted(states.items())]}),
        (target.groups, rows),
        (source.states, {SHARE_GROUP_STATE.name: [tombstone_row(key) for key in sorted(states)]}),
        (source.groups, {name: [{**row, DELETED: True} for row in gone] for name, gone in rows.items()}),
    )
    for number, (tables, written) in enumerate(steps, 1):
        tables.query_id = query_id
        if any(written.values()):
            tables.commit(Batch(0, _now_ms(), tables=written))
        after_step(number)
    logger.info("group %s is moved: %d share-partitions", group_id, len(rows[SHARE_PARTITIONS.name]))


def _snapshot(key: SharePartitionKey, state: ShareGroupOffset) -> Row:
    header, batches = state
    record = ShareGroupStateRecord(
        RecordKind.SNAPSHOT, key, header.snapshot_epoch, header.state_epoch, header.leader_epoch,
        header.start_offset, header.delivery_complete_count, tuple(batches),
    )  # fmt: skip
    end_offset = max([header.start_offset, *(batch.last_offset + 1 for batch in batches)])
    return {**key._asdict(), **state_row(record, end_offset)}


def _now_ms() -> int:
    return int(time.time() * 1000)
