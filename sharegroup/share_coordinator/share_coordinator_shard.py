"""The share coordinator: the machine that keeps the durable state of share-partitions (KIP-932, "Share coordinator").

Theory of operation
-------------------
A request returns `CoordinatorResult(records, response)` and changes nothing; `replay` is the only mutator, and after a
restart it is fed the same records. A refused request raises RequestError, with no records.

Checks come in this order, the first that fails answers:

    topic missing, partition negative          INVALID_REQUEST              all
    epoch negative                             INVALID_REQUEST              initialise, write, read
    share-partition not initialised            INVALID_REQUEST              write, read
    leader epoch below the fence               FENCED_LEADER_EPOCH          write, read
    state epoch below the recorded             FENCED_STATE_EPOCH           initialise, write
    topic or partition does not exist          UNKNOWN_TOPIC_OR_PARTITION   all

What a request records is decided in `next_record`, what a record does to a state in `share_group_offset`: this file
holds the states, the checks and the positions of the snapshots. Where Kafka releases differ it follows 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.share_coordinator.next_record import (
    NO_LEADER_EPOCH,
    StateWrite,
    check_not_negative,
    initial_record,
    leader_epoch_record,
    next_record,
    repeated_snapshot,
    spelled_out,
)
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord, tombstone
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.share_coordinator.state_batch_combiner import Precedence
from sharegroup.types import UNCHANGED, SharePartitionKey, StateBatch

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class ShareCoordinatorConfig(NamedTuple):
    """How often snapshots are written.

    `updates_per_snapshot`: updates between two snapshots, 0 for snapshots only (Kafka's
    `share.coordinator.snapshot.update.records.per.snapshot`). `cold_snapshot_interval_ms`: age from which a snapshot is
    repeated (`share.coordinator.cold.partition.snapshot.interval.ms`).
    """

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000


@dataclass(frozen=True)
class CoordinatorResult(Generic[ResponseT_co]):
    """The records to append, in order, and the answer to give once they are durable."""

    records: tuple[ShareGroupStateRecord, ...]
    response: ResponseT_co


class ReadStateResponse(NamedTuple):
    """What a leader starts with (KIP-932, ReadShareGroupState); `start_offset` -1: apply the reset strategy."""

    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]


class ReadStateSummaryResponse(NamedTuple):
    """What listing offsets and lag needs (KIP-932, ReadShareGroupStateSummary); -1 for the unknown."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareCoordinatorShard:
    """The states of some share-partitions.

    `partition_count` gives a topic's number of partitions, None if there is no such topic. `precedence` is Kafka's by
    default; NEWEST is for records that carry ACQUIRED batches (see `state_batch_combiner`).
    """

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        partition_count: Callable[[str], int | None],
        precedence: Precedence = Precedence.HIGHEST,
    ) -> None:
        self._config = config
        self._partition_count = partition_count
        self._precedence = precedence
        self._states: dict[SharePartitionKey, ShareGroupOffset] = {}
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}
        self._next_offset = 0

    @property
    def states(self) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """The state of each initialised share-partition, as a read-only view."""
        return MappingProxyType(self._states)

    def init_state(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> CoordinatorResult[None]:
        """(Re-)initialise a share-partition (InitializeShareGroupState); start offset -1: the reset strategy decides.

        Raises RequestError: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_key(key)
        state = self._states.get(key)
        record = initial_record(key, None if state is None else state.header, state_epoch, start_offset)
        self._check_exists(key)
        return CoordinatorResult((record,), None)

    def write_state(self, write: StateWrite) -> CoordinatorResult[None]:
        """Record what a leader changed (WriteShareGroupState).

        Raises RequestError: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_key(write.key)
        header, batches, _ = self._initialised(write.key)
        record = next_record(
            header,
            write,
            self._config.updates_per_snapshot,
            lambda: (*batches, *write.state_batches),
            self._precedence,
        )
        self._check_exists(write.key)
        return CoordinatorResult((spelled_out(record, header),), None)

    def read_state(self, key: SharePartitionKey, leader_epoch: int) -> CoordinatorResult[ReadStateResponse]:
        """The state for a leader; records its epoch if that is higher than any before (ReadShareGroupState).

        Raises RequestError: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_key(key)
        check_not_negative("leader epoch", leader_epoch)
        header, batches, _ = self._initialised(key)
        record = leader_epoch_record(key, header, leader_epoch, self._config.updates_per_snapshot, lambda: batches)
        self._check_exists(key)
        response = ReadStateResponse(header.state_epoch, header.start_offset, batches)
        return CoordinatorResult(() if record is None else (spelled_out(record, header),), response)

    def read_state_summary(self, key: SharePartitionKey) -> CoordinatorResult[ReadStateSummaryResponse]:
        """Offset and epochs without batches; never records anything (ReadShareGroupStateSummary).

        Raises RequestError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_key(key)
        self._check_exists(key)
        state = self._states.get(key)
        if state is None:
            return CoordinatorResult((), ReadStateSummaryResponse(0, NO_LEADER_EPOCH, UNCHANGED, UNCHANGED))
        _, state_epoch, leader_epoch, start_offset, delivery_complete_count, *_ = state.header
        response = ReadStateSummaryResponse(state_epoch, leader_epoch, start_offset, delivery_complete_count)
        return CoordinatorResult((), response)

    def delete_state(self, key: SharePartitionKey) -> CoordinatorResult[None]:
        """Forget a share-partition, fences included; one without state is no error (DeleteShareGroupState).

        Raises RequestError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_key(key)
        self._check_exists(key)
        return CoordinatorResult((tombstone(key),) if key in self._states else (), None)

    def delete_topics(self, topics: Collection[str]) -> CoordinatorResult[None]:
        """Forget every share-partition of topics that were deleted."""
        return CoordinatorResult(tuple(tombstone(key) for key in self._states if key.topic in topics), None)

    def snapshot_cold(self, now_ms: int) -> CoordinatorResult[None]:
        """Repeat the snapshots that are `cold_snapshot_interval_ms` old or older, so that older records can be pruned.

        Nothing if every newest record is such a repetition already: then there is nothing to prune either.
        """
        if all(state.rewritten for state in self._states.values()):
            return CoordinatorResult((), None)
        interval_ms = self._config.cold_snapshot_interval_ms
        records = tuple(
            repeated_snapshot(key, state.header, state.state_batches)
            for key, state in self._states.items()
            if state.header.is_cold(now_ms, interval_ms)
        )
        return CoordinatorResult(records, None)

    def last_redundant_offset(self) -> int | None:
        """The offset below which no record is needed: the smallest newest snapshot's. None if all records are needed.

        Offsets are those given to `replay`. Without any share-partition left every record is redundant.
        """
        redundant = min(self._snapshot_offsets.values(), default=self._next_offset)
        return redundant if redundant > 0 else None

    def replay(self, record: ShareGroupStateRecord, now_ms: int, offset: int | None = None) -> None:
        """Apply a durable record: the only thing that changes the shard.

        `offset` is the record's position in the log of records (a table's version will do); by default records are
        counted.
        An update without a snapshot is ignored: it belongs to a share-partition deleted since.
        """
        position = self._next_offset if offset is None else offset
        self._next_offset = position + 1
        state = self._states.get(record.key)
        if record.kind is RecordKind.TOMBSTONE:
            self._states.pop(record.key, None)
            self._snapshot_offsets.pop(record.key, None)
            return
        if state is not None:
            if state.header.supersedes(record):
                return
            self._states[record.key] = state.after(record, now_ms, self._precedence)
        elif record.kind is RecordKind.SNAPSHOT:
            self._states[record.key] = ShareGroupOffset.of(record, now_ms, self._precedence)
        if record.kind is RecordKind.SNAPSHOT:
            self._snapshot_offsets[record.key] = position

    def _initialised(self, key: SharePartitionKey) -> ShareGroupOffset:
        state = self._states.get(key)
        if state is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{key} is not initialised")
        return state

    def _check_exists(self, key: SharePartitionKey) -> None:
        count = self._partition_count(key.topic)
        if count is None or key.partition >= count:
            message = f"there is no partition {key.partition} of topic {key.topic}"
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _check_key(key: SharePartitionKey) -> None:
    if not key.topic or key.partition < 0:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"no share-partition can be {key}")
