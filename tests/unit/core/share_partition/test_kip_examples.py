"""The worked examples in the text of KIP-932, record by record: what is in flight after each operation.

The KIP writes down what Kafka makes durable. This project makes acquisitions durable, too, so its records say more;
what they say of the start offset and of records that nobody holds is the same (tests/unit/core/operators).
"""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, OffsetRange, RecordState

CONFIG = SharePartitionConfig(delivery_count_limit=5, record_lock_duration_ms=30_000)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Record(NamedTuple):
    """A record in flight as in the KIP's tables, with its holder."""

    state: RecordState
    delivery_count: int
    member: str | None = None


class Example:
    """A share-partition, its clock, and the KIP's operations."""

    def __init__(self, start_offset: int, log_end_offset: int) -> None:
        self.partition = SharePartition(start_offset, 0, log_end_offset)
        self.now_ms = 0

    def produce(self, log_end_offset: int) -> None:
        self.partition.replay(self.partition.move_log_end(log_end_offset))

    def fetch(self, member: str, max_records: int) -> list[int]:
        """Acquire for a member and return the offsets."""
        outcome = self._replay(self.partition.acquire(member, max_records, self.now_ms, CONFIG))
        return [offset for first, last, _ in outcome.response for offset in range(first, last + 1)]

    def acknowledge(self, member: str, first: int, last: int, acknowledge_type: AcknowledgeType = ACCEPT) -> None:
        batch = AcknowledgementBatch(first, last, (int(acknowledge_type),))
        self._replay(self.partition.acknowledge(member, [batch], self.now_ms, CONFIG, False))

    def give_back(self, member: str, first: int, last: int) -> None:
        """Unacquire records that the member never received."""
        self._replay(self.partition.unacquire(member, [OffsetRange(first, last)]))

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self._replay(self.partition.expire(self.now_ms, CONFIG))

    def in_flight(self) -> dict[int, Record]:
        return {
            offset: Record(batch.delivery_state, batch.delivery_count, batch.member_id)
            for batch in self.partition.state_batches()
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }

    def offsets(self) -> tuple[int, int]:
        """(SPSO, SPEO)"""
        return self.partition.start_offset, self.partition.end_offset

    def _replay(self, outcome: Outcome) -> Outcome:
        self.partition.replay(outcome)
        return outcome


def records(first: int, last: int, record: Record) -> dict[int, Record]:
    return dict.fromkeys(range(first, last + 1), record)


def test_in_flight_records_example() -> None:
    """ "In-flight records": offsets 2 to 8, each in the state and with the count that the figure shows."""
    example = Example(0, 9)
    assert example.fetch("a", 2) == [0, 1]
    example.acknowledge("a", 0, 1, REJECT)
    assert example.offsets() == (2, 2)
    assert example.fetch("a", 1) == [2]
    assert example.fetch("b", 1) == [3]
    example.acknowledge("b", 3, 3, RELEASE)
    assert example.fetch("b", 1) == [3]
    assert example.fetch("c", 1) == [4]
    assert example.fetch("d", 2) == [5, 6]
    example.acknowledge("d", 5, 5)
    example.acknowledge("d", 6, 6, REJECT)
    assert example.fetch("d", 2) == [7, 8]
    example.give_back("d", 7, 8)
    example.acknowledge("b", 3, 3, RELEASE)

    assert example.offsets() == (2, 9)
    assert example.in_flight() == {
        2: Record(ACQUIRED, 1, "a"),
        3: Record(AVAILABLE, 2),
        4: Record(ACQUIRED, 1, "c"),
        5: Record(ACKNOWLEDGED, 1),
        6: Record(ARCHIVED, 1),
        7: Record(AVAILABLE, 0),
        8: Record(AVAILABLE, 0),
    }
    assert example.partition.delivery_complete_count == 2


def test_the_batched_case_with_successful_processing() -> None:
    """ "Examples with share-group state", its first three rows."""
    example = Example(100, 100)
    assert (example.offsets(), example.in_flight()) == ((100, 100), {})
    example.produce(110)
    assert example.fetch("1", 10) == list(range(100, 110))
    assert (example.offsets(), example.in_flight()) == ((100, 110), records(100, 109, Record(ACQUIRED, 1, "1")))
    example.acknowledge("1", 100, 109)
    assert (example.offsets(), example.in_flight()) == ((110, 110), {})


def test_a_messier_sequence_of_release_and_acknowledge() -> None:
    """ "Examples with share-group state", the rows from offset 110 on, up to SPSO=120 and SPEO=121."""
    example = Example(110, 120)
    acquired_by = {
        **records(110, 112, Record(ACQUIRED, 1, "1")),
        **records(113, 118, Record(ACQUIRED, 1, "2")),
        119: Record(ACQUIRED, 1, "3"),
    }
    assert example.fetch("1", 3) == [110, 111, 112]
    example.now_ms = 10_000  # so that only consumer 1's first records are due when the KIP says so
    assert example.fetch("2", 6) == list(range(113, 119))
    assert example.fetch("3", 1) == [119]
    assert (example.offsets(), example.in_flight()) == ((110, 120), acquired_by)

    example.acknowledge("1", 110, 110, RELEASE)
    after_release = acquired_by | {110: Record(AVAILABLE, 1)}
    assert (example.offsets(), example.in_flight()) == ((110, 120), after_release)

    example.acknowledge("3", 119, 119)
    after_119 = after_release | {119: Record(ACKNOWLEDGED, 1)}
    assert (example.offsets(), example.in_flight()) == ((110, 120), after_119)

    example.produce(121)
    assert example.fetch("1", 2) == [110, 120]
    after_fetch = after_119 | {110: Record(ACQUIRED, 2, "1"), 120: Record(ACQUIRED, 1, "1")}
    assert (example.offsets(), example.in_flight()) == ((110, 121), after_fetch)

    example.wait(20_001)
    after_timeout = after_fetch | records(111, 112, Record(AVAILABLE, 1))
    assert (example.offsets(), example.in_flight()) == ((110, 121), after_timeout)

    example.acknowledge("2", 113, 118)
    after_113 = after_timeout | records(113, 118, Record(ACKNOWLEDGED, 1))
    assert (example.offsets(), example.in_flight()) == ((110, 121), after_113)

    assert example.fetch("3", 2) == [111, 112]
    after_second_fetch = after_113 | records(111, 112, Record(ACQUIRED, 2, "3"))
    assert (example.offsets(), example.in_flight()) == ((110, 121), after_second_fetch)

    example.acknowledge("1", 110, 110)
    del after_second_fetch[110]
    assert (example.offsets(), example.in_flight()) == ((111, 121), after_second_fetch)

    example.acknowledge("3", 111, 112)
    assert (example.offsets(), example.in_flight()) == ((120, 121), {120: Record(ACQUIRED, 1, "1")})
