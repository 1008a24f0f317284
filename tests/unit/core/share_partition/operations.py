"""Random operations on a share-partition, as hypothesis strategies, and a driver for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.errors import RequestError
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange

MEMBERS = st.sampled_from(["m1", "m2", "m3"])
TYPES = st.sampled_from([0, 1, 1, 2, 2, 2, 3, 4])
CONFIGS = st.builds(
    SharePartitionConfig,
    delivery_count_limit=st.integers(2, 6),
    record_lock_duration_ms=st.just(100),
    max_record_locks=st.sampled_from([6, 12, 2000]),
)


class Operation(NamedTuple):
    """A method of the machine, and its arguments without time and configuration."""

    name: str
    arguments: tuple[Any, ...]


@st.composite
def acknowledgement_batches(draw: st.DrawFn) -> list[AcknowledgementBatch]:
    batches, first = [], draw(st.one_of(st.integers(0, 3), st.integers(0, 20)))  # often what is held
    for _ in range(draw(st.integers(1, 3))):
        last = first + draw(st.integers(0, 4))
        count = draw(st.sampled_from([1, last - first + 1]))
        batches.append(AcknowledgementBatch(first, last, tuple(draw(st.lists(TYPES, min_size=count, max_size=count)))))
        first = last + draw(st.integers(0, 3))
    return batches


RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5)).map(lambda r: OffsetRange(r[0], r[0] + r[1])), max_size=2
)

GRANTS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(1, 3)).map(
        lambda r: AcquiredRange(r[0], r[0] + r[1], r[2])
    ),
    max_size=3,
)

MEMBER_OPERATIONS = st.one_of(
    st.builds(Operation, st.just("acquire"), st.tuples(MEMBERS, st.integers(0, 12))),
    st.builds(
        Operation, st.just("acknowledge"), st.tuples(MEMBERS, acknowledgement_batches(), st.one_of(st.just([]), GRANTS))
    ),
    st.builds(Operation, st.just("unacquire"), st.tuples(MEMBERS, RANGES)),
    st.builds(Operation, st.just("undo_deliveries"), st.tuples(MEMBERS, GRANTS)),
    st.builds(Operation, st.just("release_member"), st.tuples(MEMBERS)),
    st.builds(Operation, st.just("expire"), st.tuples(st.sampled_from([0, 40, 101]))),
    st.builds(Operation, st.just("append"), st.tuples(st.integers(1, 8))),
)
RESERVERS = st.sampled_from(["g1#1", "g1#2", "g2#1"])
RESERVATIONS = st.one_of(
    st.builds(Operation, st.just("reserve"), st.tuples(RESERVERS, st.integers(1, 6))),
    st.builds(Operation, st.just("assign"), st.tuples(RESERVERS, MEMBERS, RANGES)),
    st.builds(Operation, st.just("assign_first"), st.tuples(RESERVERS, MEMBERS, st.integers(1, 4))),
    st.builds(Operation, st.just("unreserve"), st.tuples(RESERVERS, st.one_of(st.none(), RANGES))),
)
MEMBER_OPERATIONS = st.one_of(MEMBER_OPERATIONS, MEMBER_OPERATIONS, RESERVATIONS)
LOG_OPERATIONS = st.one_of(
    st.builds(Operation, st.just("move_log_start"), st.tuples(st.integers(0, 30))),
    st.builds(Operation, st.just("reset"), st.tuples(st.integers(0, 20))),
)
ALL_OPERATIONS = st.one_of(MEMBER_OPERATIONS, MEMBER_OPERATIONS, MEMBER_OPERATIONS, LOG_OPERATIONS)


class Driver:
    """A machine, its configuration and its clock; `apply` returns the observable results."""

    def __init__(self, partition: SharePartition, config: SharePartitionConfig) -> None:
        self.partition = partition
        self.config = config
        self.now_ms = 0

    def decide(self, operation: Operation) -> Outcome:
        name, arguments = operation
        partition, config = self.partition, self.config
        if name == "expire":
            self.now_ms += arguments[0]
            return partition.expire(self.now_ms, config)
        if name == "acquire":
            return partition.acquire(*arguments, self.now_ms, config)
        if name == "acknowledge":
            member, batches, grants = arguments
            return partition.acknowledge(member, batches, self.now_ms, config, True, grants)
        if name == "release_member":
            return partition.release_member(*arguments, config)
        if name == "reserve":
            return partition.reserve(*arguments, config)
        if name in ("assign", "assign_first"):
            reserver, member, ranges = self.assigned_ranges(operation)
            return partition.assign(reserver, member, ranges, self.now_ms, config.record_lock_duration_ms)
        if name == "append":
            return partition.move_log_end(max(partition.log_end_offset, partition.log_start_offset) + arguments[0])
        method = getattr(partition, name)
        outcome: Outcome = method(*arguments)
        return outcome

    def assigned_ranges(self, operation: Operation) -> tuple[str, str, list[OffsetRange]]:
        """Return reserver, member and ranges of an assignment, for example of the first records that are reserved."""
        reserver, member, ranges = operation.arguments
        if operation.name == "assign_first":
            first, last = next(iter(self.partition.reserved_ranges(reserver)), (0, -1))
            ranges = [OffsetRange(first, min(last, first + ranges - 1))] if first <= last else []
        return reserver, member, ranges

    def apply(self, operation: Operation) -> Outcome | str:
        """Decide and replay; return the outcome, or the name of the error."""
        try:
            outcome = self.decide(operation)
        except RequestError as error:
            return error.code.name
        self.partition.replay(outcome)
        return outcome
