"""A topic partition in memory: its records, and their state in the share group."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from kafka.record.memory_records import MemoryRecordsBuilder

from sharegroup.core.share_partition.acknowledgement import AcknowledgementRejected
from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.share_partition import SharePartition
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import RequestError
from sharegroup.protocol.acknowledge_rules import split_unused
from sharegroup.types import AcknowledgementBatch, AcquiredRange, Cause, OffsetRange, RecordState

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class StoredRecord:
    """A record of a topic, with its state in the share group.

    Attributes:
        state: AVAILABLE, ACQUIRED, ACKNOWLEDGED (accepted), or ARCHIVED (rejected, or at the delivery count limit).
        delivery_count: the number of deliveries.
        member_id: the member that has acquired the record; None unless the state is ACQUIRED.
        causes: the causes of all state changes, oldest first, for example fetch, lock_timeout, fetch, accept.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member_id: str | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def size(self) -> int:
        """The size of key and value in bytes."""
        return len(self.key or b"") + len(self.value or b"")

    def encode(self) -> bytes:
        """Return an encoded record batch that contains only this record."""
        builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=0, offset=self.offset)
        builder.append(timestamp=self.timestamp, key=self.key, value=self.value, headers=list(self.headers))
        builder.close()
        return bytes(builder.buffer())


class StoredPartition:
    """The records of a partition, and the state machine that delivers them to the group."""

    def __init__(self, topic: str, partition: int, config: SharePartitionConfig) -> None:
        self._topic, self._partition, self._config = topic, partition, config
        self._machine = SharePartition(0, 0, 0)
        self.records: list[StoredRecord] = []

    @property
    def is_finished(self) -> bool:
        """Whether all records are accepted, rejected or archived."""
        return self._machine.start_offset == len(self.records)

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int) -> int:
        """Append a record and return its offset."""
        offset = len(self.records)
        self.records.append(StoredRecord(self._topic, self._partition, offset, key, value, headers, timestamp))
        self._machine.replay(self._machine.move_log_end(offset + 1))
        return offset

    def acquire(self, member_id: str, max_records: int, max_bytes: int, now_ms: int) -> tuple[AcquiredRange, ...]:
        """Acquire records for a member within the limits, and return the acquired ranges.

        The first record is acquired even if it exceeds `max_bytes`.
        """
        outcome = self._machine.acquire(member_id, max_records, now_ms, self._config)
        fitting = self._fitting(outcome, max_bytes)
        if fitting < _count(outcome):
            outcome = self._machine.acquire(member_id, fitting, now_ms, self._config)
        self._apply(outcome)
        return outcome.response

    def read(self, acquired: Sequence[AcquiredRange]) -> bytes:
        """Return encoded record batches with the records of these ranges."""
        return b"".join(self.records[offset].encode() for offset in _offsets(acquired))

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], is_renew_ack: bool, now_ms: int
    ) -> RequestError | None:
        """Apply acknowledgements. Return the error if they are rejected, else None."""
        unused, others = split_unused(batches)
        try:
            self._apply(self._machine.unacquire(member_id, [OffsetRange(first, last) for first, last, _ in unused]))
            self._apply(self._machine.acknowledge(member_id, others, now_ms, self._config, is_renew_ack))
        except AcknowledgementRejected as error:
            self._apply(error.renewals)
            return error
        except RequestError as error:
            return error
        return None

    def release_member(self, member_id: str) -> None:
        """Release all records of a member."""
        self._apply(self._machine.release_member(member_id, self._config))

    def expire(self, now_ms: int) -> None:
        """Release the records whose locks have expired."""
        self._apply(self._machine.expire(now_ms, self._config))

    def _apply(self, outcome: Outcome) -> None:
        self._machine.replay(outcome)
        for change in outcome.transitions:
            for offset in range(change.first_offset, change.last_offset + 1):
                record = self.records[offset]
                self.records[offset] = dataclasses.replace(
                    record,
                    state=change.to_state,
                    delivery_count=change.delivery_count,
                    member_id=change.member_id if change.to_state is RecordState.ACQUIRED else None,
                    causes=(*record.causes, change.cause),
                )

    def _fitting(self, outcome: Outcome, max_bytes: int) -> int:
        """Return how many of the acquired records fit into `max_bytes`, at least one."""
        size = count = 0
        for offset in _offsets(outcome.response):
            size += self.records[offset].size
            if count and size > max_bytes:
                break
            count += 1
        return count


def _offsets(acquired: Sequence[AcquiredRange]) -> list[int]:
    return [offset for first, last, _ in acquired for offset in range(first, last + 1)]


def _count(outcome: Outcome) -> int:
    return len(_offsets(outcome.response))
