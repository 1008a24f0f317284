"""Invariants of every sequence of operations, and the machine against the per-offset model."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TypeGuard

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.errors import RequestError
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, OffsetRange, RecordState, StateBatch
from tests.unit.core.share_partition.operations import ALL_OPERATIONS, CONFIGS, MEMBER_OPERATIONS, Driver, Operation
from tests.unit.core.share_partition.per_offset_model import PerOffsetModel, Refused

OPERATIONS = st.lists(ALL_OPERATIONS, max_size=25)


def by_offset(batches: list[StateBatch]) -> dict[int, StateBatch]:
    return {offset: batch for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)}


def is_outcome(outcome: Outcome | str) -> TypeGuard[Outcome]:
    return isinstance(outcome, Outcome)


def renewing(operation: Operation) -> list[AcknowledgementBatch]:
    """Return the batches of an acknowledgement that renew records."""
    batches = operation.arguments[1] if operation.name == "acknowledge" else []
    return [batch for batch in batches if AcknowledgeType.RENEW in batch.acknowledge_types]


@given(CONFIGS, OPERATIONS)
@settings(max_examples=150, deadline=None)
def test_invariants(config: SharePartitionConfig, operations: list[Operation]) -> None:
    driver = Driver(SharePartition(0, 0, 12), config)
    for operation in operations:
        partition = driver.partition
        before, old_start = by_offset(partition.state_batches()), partition.start_offset
        outcome = driver.apply(operation)
        batches = partition.state_batches()
        after = by_offset(batches)

        # no offset twice, none below the start offset, none at or above the end offset
        assert len(after) == sum(batch.last_offset - batch.first_offset + 1 for batch in batches)
        assert all(partition.start_offset <= offset < partition.end_offset for offset in after)
        assert partition.start_offset >= old_start or operation.name == "reset"
        assert partition.delivery_complete_count == sum(batch.delivery_state.is_terminal for batch in after.values())
        assert partition.available_count == sum(b.delivery_state is RecordState.AVAILABLE for b in after.values())
        for offset, batch in after.items():
            old = before.get(offset)
            count = old.delivery_count if old else 0
            assert batch.delivery_count <= config.delivery_count_limit
            if old is not None and old.delivery_state.is_terminal:
                assert batch[2:4] == old[2:4]
            if batch.delivery_count > count:
                assert batch.delivery_state is RecordState.ACQUIRED
                assert operation.name in ("acquire", "assign", "assign_first")
            assert batch.delivery_count >= count or operation.name in ("unacquire", "undo_deliveries")
        held = [batch for batch in after.values() if batch.delivery_state is RecordState.ACQUIRED]
        assert set(partition.members()) == {b.member_id for b in held}
        assert set(partition.reservers()) == {b.member_id for b in held if b.delivery_count == 0}
        deadlines = [batch.lock_deadline_ms for batch in held if batch.lock_deadline_ms is not None]
        deadline = partition.next_deadline_ms()
        assert deadline is not None or not deadlines
        assert deadline is None or all(deadline <= other for other in deadlines)
        told = [o for first, last, _ in outcome.response for o in range(first, last + 1)] if is_outcome(outcome) else []
        if operation.name == "acquire":
            assert len(told) <= operation.arguments[1]
        else:  # only what a renewal renewed
            named = {o for batch in renewing(operation) for o in range(batch.first_offset, batch.last_offset + 1)}
            assert set(told) <= named


@given(CONFIGS, OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_restarting_between_all_steps_changes_nothing(
    config: SharePartitionConfig, operations: list[Operation]
) -> None:
    holes = [StateBatch(3, 4, RecordState.AVAILABLE, 2), StateBatch(7, 9, RecordState.ACKNOWLEDGED, 1)]
    continuous = Driver(SharePartition.load(0, holes, 0, 14), config)
    restarted = Driver(SharePartition.load(0, holes, 0, 14), config)
    for operation in operations:
        restarted.partition = SharePartition.restore(json.loads(json.dumps(restarted.partition.dump())))
        assert restarted.apply(operation) == continuous.apply(operation)
        assert restarted.partition.dump() == continuous.partition.dump()
        assert restarted.partition.next_deadline_ms() == continuous.partition.next_deadline_ms()
        assert restarted.partition.has_available(config) == continuous.partition.has_available(config)


@given(CONFIGS, OPERATIONS, ALL_OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_deciding_changes_nothing(config: SharePartitionConfig, operations: list[Operation], last: Operation) -> None:
    driver = Driver(SharePartition(0, 0, 12), config)
    for operation in operations:
        driver.apply(operation)
    before = driver.partition.dump()
    with suppress(RequestError):
        driver.decide(last)
    assert driver.partition.dump() == before


@given(CONFIGS, OPERATIONS)
@settings(max_examples=60, deadline=None)
def test_has_available_predicts_acquire(config: SharePartitionConfig, operations: list[Operation]) -> None:
    driver = Driver(SharePartition(0, 0, 12), config)
    for operation in operations:
        driver.apply(operation)
        assert driver.partition.has_available(config) == (not driver.decide(Operation("acquire", ("m", 1))).is_empty)


@given(CONFIGS, OPERATIONS)
@settings(max_examples=60, deadline=None)
def test_updates_add_up_to_the_snapshot(config: SharePartitionConfig, operations: list[Operation]) -> None:
    """The update records of all steps, applied in order, give the whole state."""
    driver = Driver(SharePartition(0, 0, 12), config)
    known: dict[int, StateBatch] = {}
    for operation in operations:
        outcome = driver.apply(operation)
        if isinstance(outcome, Outcome):
            ranges = [OffsetRange(t.first_offset, t.last_offset) for t in outcome.transitions]
            known.update(by_offset(driver.partition.state_batches_in(ranges)))
        start, end = driver.partition.start_offset, driver.partition.end_offset
        known = {offset: batch for offset, batch in known.items() if start <= offset < end}
        snapshot = by_offset(driver.partition.state_batches())
        assert {offset: batch[2:] for offset, batch in known.items()} == {
            offset: batch[2:] for offset, batch in snapshot.items()
        }


@given(CONFIGS, st.lists(MEMBER_OPERATIONS, max_size=25))
@settings(max_examples=150, deadline=None)
def test_behaves_like_the_per_offset_model(config: SharePartitionConfig, operations: list[Operation]) -> None:
    driver, model = Driver(SharePartition(0, 0, 12), config), PerOffsetModel(0, 12)
    for operation in operations:
        assigned = driver.assigned_ranges(operation) if operation.name.startswith("assign") else None
        outcome = driver.apply(operation)
        if assigned is not None:
            operation = Operation("assign", assigned)
        expected = _apply_to_model(model, driver, operation)
        if isinstance(outcome, Outcome):
            response = [(offset, count) for first, last, count in outcome.response for offset in range(first, last + 1)]
            assert response == expected
        else:
            assert outcome == expected
        assert driver.partition.start_offset == model.start
        assert {o: tuple(b[2:]) for o, b in by_offset(driver.partition.state_batches()).items()} == {
            o: (r.state, r.count, r.member, r.deadline) for o, r in model.records.items()
        }


def _apply_to_model(model: PerOffsetModel, driver: Driver, operation: Operation) -> object:
    """Return the model's result: (offset, count) of acquired or renewed records, or the name of the error."""
    name, arguments = operation
    try:
        if name == "acquire":
            return model.acquire(*arguments, driver.now_ms, driver.config)
        if name == "acknowledge":
            return model.acknowledge(*arguments, driver.now_ms, driver.config)
        if name == "assign":
            model.assign(*arguments, driver.now_ms, driver.config)
        elif name == "reserve":
            model.reserve(*arguments, driver.config)
        elif name in ("unacquire", "unreserve"):
            getattr(model, name)(*arguments)
        elif name == "undo_deliveries":
            model.undo_deliveries(*arguments)
        elif name == "release_member":
            model.release_member(*arguments, driver.config)
        elif name == "expire":
            model.expire(driver.now_ms, driver.config)
        else:
            model.log_end += arguments[0]
    except Refused as refused:
        return str(refused)
    return []
