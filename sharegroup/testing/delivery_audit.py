"""Checks in the tables that no record of a group is lost and that no record is finished twice.

    problems = audit("/data/tables", "orders", {("orders", 0): 100_000, ("orders", 1): 100_000})
    progress("/data/tables", "orders").finished

The table `delivery_log` contains each state transition of each range, so it can be checked offset by offset. The table
`share_group_state` contains the current state of the share-partitions. If a topic was deleted and created again,
`audit` checks only the newest topic. Both tables are read with delta-rs, without Spark, in a few milliseconds.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_GROUP_STATE, table_path
from sharegroup.types import Cause, RecordState, SharePartitionKey

TopicPartition = tuple[str, int]

_COLUMNS = ["topic", "topic_id", "partition", "first_offset", "last_offset", "to_state", "cause", "delivery_count"]
#: The maximum number of reported examples of a problem.
_SHOWN = 10
_FINAL = (RecordState.ACKNOWLEDGED.name, RecordState.ARCHIVED.name)


@dataclass
class Progress:
    """The progress of a group. Counts are records, not ranges.

    Attributes:
        outcomes: {outcome: number of finished records}. The outcomes are "accepted", "rejected", "archived at the
            limit", and "gone" (gaps, and records that were skipped because of truncation, a reset or the topic's
            deletion).
        deliveries: {delivery count: number of finished records that were delivered this often}.
        acquired: {member id: number of records that the member has currently acquired}.
        available: the number of records in flight that are available.
        redelivered: how often records were acquired again after their first delivery.
        lock_timeouts: how often locks of records expired.
        start_offsets: {topic-partition: start offset}.
        complete_counts: {topic-partition: number of finished records above the start offset}.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[int] = field(default_factory=Counter)
    acquired: Counter[str] = field(default_factory=Counter)
    available: int = 0
    redelivered: int = 0
    lock_timeouts: int = 0
    start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    complete_counts: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def finished(self) -> int:
        """The number of records in a final state."""
        return self.outcomes.total()

    def lag(self, log_end_offsets: Mapping[TopicPartition, int]) -> int:
        """Return the number of unfinished records (KIP-1226).

        For each partition, this is the log end offset, minus the start offset, minus the number of finished records
        above the start offset.
        """
        return sum(
            end - self.start_offsets.get(key, 0) - max(0, self.complete_counts.get(key, 0))
            for key, end in log_end_offsets.items()
        )


def progress(tables_path: str, group_id: str) -> Progress:
    """Return the group's progress according to the newest version of each table.

    If a topic was deleted and created again, `outcomes`, `deliveries`, `redelivered` and `lock_timeouts` count both
    topics.
    """
    found = Progress()
    for row in _transitions(tables_path, group_id).to_pylist():
        records = row["last_offset"] - row["first_offset"] + 1
        if row["to_state"] in _FINAL:
            found.outcomes[_outcome(row)] += records
            found.deliveries[row["delivery_count"]] += records
        elif row["cause"] == Cause.FETCH.value and row["delivery_count"] > 1:
            found.redelivered += records
        elif row["cause"] == Cause.LOCK_TIMEOUT.value:
            found.lock_timeouts += records
    for key, state in _states(tables_path, group_id).values():
        found.start_offsets[key.topic, key.partition] = state.header.start_offset
        found.complete_counts[key.topic, key.partition] = state.header.delivery_complete_count
        for first, last, delivery_state, _, member_id, _ in state.state_batches:
            if delivery_state is RecordState.ACQUIRED:
                found.acquired[member_id or ""] += last - first + 1
            elif delivery_state is RecordState.AVAILABLE:
                found.available += last - first + 1
    return found


def audit(tables_path: str, group_id: str, log_end_offsets: Mapping[TopicPartition, int]) -> list[str]:
    """Check a group that should have finished all records below `log_end_offsets`. Return a sentence for each problem.

    If there are no problems, each offset entered a final state exactly once, the start offset of each partition is its
    log end offset, and no records are in flight. Offsets after the log end offset are ignored if a gateway has reserved
    them, or had reserved them and did not deliver them.
    """
    problems: list[str] = []
    transitions = _transitions(tables_path, group_id)
    states = _states(tables_path, group_id)
    for (topic, partition), log_end_offset in sorted(log_end_offsets.items()):
        name = f"{topic}-{partition}"
        key, state = states.get((topic, partition), (None, None))
        finals = _final_transitions(transitions, topic, partition, log_end_offset, key and key.topic_id)
        problems += _offsets(f"{name}: there is no final state", np.flatnonzero(finals == 0))
        problems += _offsets(f"{name}: there is more than one final state", np.flatnonzero(finals > 1))
        if state is None:
            problems.append(f"{name}: share_group_state has no state of this partition")
            continue
        if state.header.start_offset != log_end_offset:
            problems.append(
                f"{name}: the start offset is {state.header.start_offset}, but the log ends at {log_end_offset}"
            )
        # A record below the end of the log that is reserved only has no final state, which is reported above.
        in_flight = [
            batch
            for batch in state.state_batches
            if batch.delivery_count or (batch.member_id is None and batch.first_offset < log_end_offset)
        ]
        open_batches = [batch for batch in in_flight if not batch.delivery_state.is_terminal]
        problems += [
            f"{name}: the range {batch.first_offset}..{batch.last_offset} is still {batch.delivery_state.name}"
            for batch in open_batches[:_SHOWN]
        ]
    return problems


def _states(tables_path: str, group_id: str) -> dict[TopicPartition, tuple[SharePartitionKey, ShareGroupOffset]]:
    """Return {topic-partition: (key, state)}. If a topic was created again, only the newest topic counts."""
    states = read_states(DeltaTable(table_path(tables_path, SHARE_GROUP_STATE)))
    of_group = [(key, state) for key, state in states.items() if key.group_id == group_id]
    of_group.sort(key=lambda item: (item[1].header.state_epoch, item[1].header.last_snapshot_ms))
    return {(key.topic, key.partition): (key, state) for key, state in of_group}


def _transitions(tables_path: str, group_id: str) -> pa.Table:
    table = DeltaTable(table_path(tables_path, DELIVERY_LOG))
    return table.to_pyarrow_table(columns=_COLUMNS, filters=[("group_id", "=", group_id)])


def _outcome(row: Mapping[str, Any]) -> str:
    if row["to_state"] == RecordState.ACKNOWLEDGED.name:
        return "accepted"
    if row["cause"] == Cause.REJECT.value:
        return "rejected"
    is_gone = row["cause"] in (Cause.GAP.value, Cause.LOG_TRUNCATED.value, Cause.RESET.value, Cause.TOPIC_DELETED.value)
    return "gone" if is_gone else "archived at the limit"


def _final_transitions(
    transitions: pa.Table, topic: str, partition: int, log_end_offset: int, topic_id: str | None
) -> np.ndarray[Any, Any]:
    """Return an array that contains, for each offset below `log_end_offset`, how often it entered a final state.

    Rows with the cause `unclean_election` are ignored. Each range of offsets adds +1 at its first offset and -1 after
    its last offset. The result is the running sum.
    """
    steps = np.zeros(log_end_offset + 1, dtype=np.int64)
    for row in transitions.to_pylist():
        is_it = (row["topic"], row["partition"]) == (topic, partition) and row["topic_id"] in (topic_id, None)
        if is_it and row["to_state"] in _FINAL and row["cause"] != Cause.UNCLEAN_ELECTION.value:
            steps[min(row["first_offset"], log_end_offset)] += 1
            steps[min(row["last_offset"] + 1, log_end_offset)] -= 1
    return np.cumsum(steps)[:-1]


def _offsets(what: str, offsets: np.ndarray[Any, Any]) -> list[str]:
    if not len(offsets):
        return []
    shown = ", ".join(str(offset) for offset in offsets[:_SHOWN]) + (", ..." if len(offsets) > _SHOWN else "")
    return [f"{what} for {len(offsets)} offset(s): {shown}"]
