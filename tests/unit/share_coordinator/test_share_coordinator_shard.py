"""The coordinator shard: who is refused, what is recorded, and that a restart is a replay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.share_coordinator.fold import fold
from sharegroup.share_coordinator.next_record import StateWrite
from sharegroup.share_coordinator.records import (
    RecordKind,
    ShareGroupStateRecord,
    tombstone,
)
from sharegroup.share_coordinator.share_coordinator_shard import (
    CoordinatorResult,
    ReadStateResponse,
    ReadStateSummaryResponse,
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
)
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.share_coordinator.state_batch_combiner import Precedence
from sharegroup.types import SharePartitionKey

from .state_batch_strategies import acquired, available, our_batches

Request = Callable[[ShareCoordinatorShard], CoordinatorResult[object]]

PARTITIONS = {"t1": 3, "t2": 1}
KEY = SharePartitionKey("g", "t1", 0)
OTHER = SharePartitionKey("g", "t2", 0)


class Log:
    """A shard beside the records it wrote, all replayed at once."""

    def __init__(
        self, config: ShareCoordinatorConfig | None = None, precedence: Precedence = Precedence.HIGHEST
    ) -> None:
        self.shard = ShareCoordinatorShard(config or ShareCoordinatorConfig(), PARTITIONS.get, precedence)
        self.records: list[ShareGroupStateRecord] = []

    def append(self, result: CoordinatorResult[object], now_ms: int = 0) -> tuple[ShareGroupStateRecord, ...]:
        for record in result.records:
            self.records.append(record)
            self.shard.replay(record, now_ms)
        return result.records


def initialised() -> Log:
    """A share-partition with state epoch 2, leader epoch 5, records 10..14 acknowledged once."""
    log = Log()
    log.append(log.shard.init_state(KEY, 2, 10))
    log.append(log.shard.read_state(KEY, 5))
    log.append(log.shard.write_state(StateWrite(KEY, 2, 5, 10, 0, (available(10, 14),))))
    return log


NO_TOPIC = SharePartitionKey("g", "", 0)
NEGATIVE = SharePartitionKey("g", "t1", -1)
NOT_INITIALISED = SharePartitionKey("g", "t1", 1)
UNKNOWN_PARTITION = SharePartitionKey("g", "t1", 3)
UNKNOWN_TOPIC = SharePartitionKey("g", "t9", 0)

REFUSED: list[tuple[Request, ErrorCode]] = [
    *[
        (request, ErrorCode.INVALID_REQUEST)
        for key in (NO_TOPIC, NEGATIVE)
        for request in (
            lambda shard, key=key: shard.init_state(key, 0, -1),
            lambda shard, key=key: shard.write_state(StateWrite(key, 2, 5)),
            lambda shard, key=key: shard.read_state(key, 5),
            lambda shard, key=key: shard.read_state_summary(key),
            lambda shard, key=key: shard.delete_state(key),
        )
    ],
    *[
        (request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for key in (UNKNOWN_PARTITION, UNKNOWN_TOPIC)
        for request in (
            lambda shard, key=key: shard.init_state(key, 0, -1),
            lambda shard, key=key: shard.read_state_summary(key),
            lambda shard, key=key: shard.delete_state(key),
        )
    ],
    (lambda shard: shard.write_state(StateWrite(NOT_INITIALISED, 2, 5)), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.read_state(NOT_INITIALISED, 5), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.write_state(StateWrite(UNKNOWN_PARTITION, 2, 5)), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.init_state(KEY, -1, 0), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.write_state(StateWrite(KEY, -1, 5)), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.write_state(StateWrite(KEY, 2, -1)), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.read_state(KEY, -1), ErrorCode.INVALID_REQUEST),
    (lambda shard: shard.write_state(StateWrite(KEY, 2, 4)), ErrorCode.FENCED_LEADER_EPOCH),
    (lambda shard: shard.write_state(StateWrite(KEY, 1, 4)), ErrorCode.FENCED_LEADER_EPOCH),
    (lambda shard: shard.read_state(KEY, 4), ErrorCode.FENCED_LEADER_EPOCH),
    (lambda shard: shard.write_state(StateWrite(KEY, 1, 5)), ErrorCode.FENCED_STATE_EPOCH),
    (lambda shard: shard.init_state(KEY, 1, 0), ErrorCode.FENCED_STATE_EPOCH),
]


@pytest.mark.parametrize(("request_", "code"), REFUSED)
def test_a_refused_request_changes_nothing(request_: Request, code: ErrorCode) -> None:
    log = initialised()
    before = dict(log.shard.states)
    with pytest.raises(RequestError) as refused:
        request_(log.shard)
    assert refused.value.code is code
    assert dict(log.shard.states) == before


def test_a_state_whose_topic_is_gone_can_be_neither_written_nor_read() -> None:
    partitions = {"t1": 1}
    shard = ShareCoordinatorShard(ShareCoordinatorConfig(), partitions.get)
    shard.replay(shard.init_state(KEY, 0, 0).records[0], 0)
    partitions.clear()
    for request in (lambda: shard.write_state(StateWrite(KEY, 0, 0)), lambda: shard.read_state(KEY, 0)):
        with pytest.raises(RequestError) as refused:
            request()
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


ACCEPTED: list[Request] = [
    lambda shard: shard.init_state(KEY, 3, 0),
    lambda shard: shard.write_state(StateWrite(KEY, 2, 5, 12)),
    lambda shard: shard.read_state(KEY, 6),
    lambda shard: shard.delete_state(KEY),
    lambda shard: shard.delete_topics(["t1"]),
    lambda shard: shard.snapshot_cold(10**9),
]


@pytest.mark.parametrize("request_", ACCEPTED)
def test_only_replay_changes_the_state(request_: Request) -> None:
    log = initialised()
    before = dict(log.shard.states)
    result = request_(log.shard)
    assert dict(log.shard.states) == before
    log.append(result)
    assert dict(log.shard.states) != before


def test_the_same_state_epoch_initialises_again() -> None:
    log = initialised()
    (record,) = log.append(log.shard.init_state(KEY, 2, 40))
    assert (record.snapshot_epoch, record.start_offset, record.state_batches) == (1, 40, ())


def test_reading_answers_with_the_state() -> None:
    shard = initialised().shard
    assert shard.read_state(KEY, 5) == CoordinatorResult((), ReadStateResponse(2, 10, (available(10, 14),)))
    assert shard.read_state_summary(KEY) == CoordinatorResult((), ReadStateSummaryResponse(2, 5, 10, 0))
    assert shard.read_state_summary(NOT_INITIALISED).response == ReadStateSummaryResponse(0, 0, -1, -1)


def test_the_start_offset_never_goes_back() -> None:
    log = initialised()
    (record,) = log.append(log.shard.write_state(StateWrite(KEY, 2, 5, 7, 9, (available(7, 11, 2),))))
    assert (record.start_offset, record.delivery_complete_count) == (10, 0)
    assert record.state_batches == (available(10, 11, 2),)


def test_deleting_the_unknown_records_nothing() -> None:
    assert Log().shard.delete_state(KEY) == CoordinatorResult((), None)


def test_a_deleted_topic_takes_all_its_share_partitions() -> None:
    log = initialised()
    log.append(log.shard.init_state(NOT_INITIALISED, 0, 0))
    log.append(log.shard.init_state(OTHER, 0, 0))
    assert log.append(log.shard.delete_topics({"t1"})) == (tombstone(KEY), tombstone(NOT_INITIALISED))
    assert set(log.shard.states) == {OTHER}


def test_an_update_without_a_snapshot_is_ignored() -> None:
    log = Log()
    log.shard.replay(ShareGroupStateRecord(RecordKind.UPDATE, KEY, 0, -1, 9, 10), 0)
    assert dict(log.shard.states) == {}


def test_the_states_are_a_view() -> None:
    states = Log().shard.states
    assert not hasattr(states, "__setitem__")


@pytest.mark.parametrize(("now_ms", "cold"), [(299_999, []), (300_000, [KEY]), (350_000, [KEY, OTHER])])
def test_snapshots_are_repeated_by_age(now_ms: int, cold: list[SharePartitionKey]) -> None:
    log = Log()
    log.append(log.shard.init_state(KEY, 0, 0), now_ms=0)
    log.append(log.shard.init_state(OTHER, 0, 0), now_ms=50_000)
    assert [record.key for record in log.shard.snapshot_cold(now_ms).records] == cold


def test_one_live_share_partition_keeps_the_others_moving() -> None:
    log = Log()
    for key in (KEY, OTHER):
        log.append(log.shard.init_state(key, 0, 0))
    assert len(log.append(log.shard.snapshot_cold(300_000), 300_000)) == 2
    assert log.shard.snapshot_cold(600_000).records == ()
    log.append(log.shard.write_state(StateWrite(KEY, 0, 0, 5)), 500_000)
    assert [record.key for record in log.shard.snapshot_cold(600_000).records] == [KEY, OTHER]


def test_nothing_is_cold_in_an_empty_shard() -> None:
    assert Log().shard.snapshot_cold(10**9).records == ()


def test_records_are_redundant_below_the_oldest_newest_snapshot() -> None:
    log = Log()
    assert log.shard.last_redundant_offset() is None
    log.append(log.shard.init_state(KEY, 0, 0))
    assert log.shard.last_redundant_offset() is None
    log.append(log.shard.init_state(OTHER, 0, 0))
    log.append(log.shard.delete_state(KEY))
    assert log.shard.last_redundant_offset() == 1
    log.append(log.shard.delete_state(OTHER))
    assert log.shard.last_redundant_offset() == 4


def test_redundant_offsets_are_those_replayed() -> None:
    shard = Log().shard
    (record,) = shard.init_state(KEY, 0, 0).records
    shard.replay(record, 0, offset=70)
    assert shard.last_redundant_offset() == 70
    shard.replay(record._replace(key=OTHER), 0)
    shard.replay(record._replace(snapshot_epoch=1), 0, offset=90)
    assert shard.last_redundant_offset() == 71


def test_a_record_of_an_older_snapshot_changes_neither_state_nor_redundancy() -> None:
    log = Log()
    (first,) = log.append(log.shard.init_state(KEY, 0, 0))
    log.append(log.shard.init_state(KEY, 0, 30))
    before = dict(log.shard.states)
    log.shard.replay(first, 0)
    assert dict(log.shard.states) == before
    assert log.shard.last_redundant_offset() == 1


def test_newest_wins_lets_go_of_locks() -> None:
    log = Log(precedence=Precedence.NEWEST)
    log.append(log.shard.init_state(KEY, 0, 0))
    log.append(log.shard.write_state(StateWrite(KEY, 0, 0, 0, 0, (acquired(0, 9, 2),))))
    log.append(log.shard.write_state(StateWrite(KEY, 0, 0, 0, 0, (available(0, 4, 1), available(5, 9, 2)))))
    assert log.shard.states[KEY].state_batches == (available(0, 4, 1), available(5, 9, 2))


KEYS = st.sampled_from([KEY, OTHER])
OFFSETS = st.integers(-1, 20)
WRITES = st.builds(
    StateWrite, KEYS, st.integers(0, 3), st.integers(0, 3), OFFSETS, OFFSETS, st.lists(our_batches(), max_size=3)
)
OPERATIONS = st.one_of(
    st.tuples(st.just("init_state"), KEYS, st.integers(0, 3), OFFSETS),
    st.tuples(st.just("write_state"), WRITES),
    st.tuples(st.just("write_state"), WRITES.map(lambda write: write._replace(state_epoch=9, leader_epoch=9))),
    st.tuples(st.just("read_state"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("snapshot_cold"), st.integers(0, 10**6)),
    st.tuples(st.just("delete_state"), KEYS),
)


@given(st.lists(OPERATIONS, max_size=25), st.integers(0, 3), st.sampled_from(list(Precedence)))
def test_folding_the_records_gives_the_state(
    operations: list[tuple[object, ...]], updates_per_snapshot: int, precedence: Precedence
) -> None:
    log = Log(ShareCoordinatorConfig(updates_per_snapshot, 1), precedence)
    for key in (KEY, OTHER):
        log.append(log.shard.init_state(key, 0, -1))
    for operation, *arguments in operations:
        try:
            log.append(getattr(log.shard, str(operation))(*arguments))
        except RequestError:
            continue
    states = {key: ShareGroupOffset(state.header, state.state_batches) for key, state in log.shard.states.items()}
    assert fold(log.records, precedence=precedence) == states
    redundant = log.shard.last_redundant_offset() or 0
    pruned = fold(log.records[redundant:], precedence=precedence)
    fences = {key: state.header.leader_epoch_fence for key, state in pruned.items()}
    assert {
        key: state._replace(header=state.header._replace(leader_epoch_fence=fences[key]))
        for key, state in states.items()
    } == pruned
