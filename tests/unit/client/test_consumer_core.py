"""A share consumer without input and output."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import AcknowledgeResult
from sharegroup.client.core.consumer_core import ConsumerCore, commit_results
from sharegroup.client.core.share_node import FetchAnswer, FetchedPartition
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import TopicIdPartition
from sharegroup.client.settings import parse_settings
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.consumer_metrics import FETCH_MANAGER
from sharegroup.protocol.messages import ShareFetchResponse
from sharegroup.types import AcknowledgeType
from tests.unit.client.test_decoding import batch

TOPIC = UUID(int=7)
ZERO, ONE, TWO = (TopicIdPartition(TOPIC, partition, "orders") for partition in range(3))
_PART = ShareFetchResponse.ShareFetchableTopicResponse.PartitionData


def new_core(**settings: Any) -> ConsumerCore:
    core = ConsumerCore(parse_settings({"bootstrap_servers": "a:1", "group_id": "g", **settings}), "member", 0)
    core.membership.subscribe(["orders"])
    return core


def receive(
    core: ConsumerCore, records: int, *, code: ErrorCode = ErrorCode.NONE, leader: int = -1, decodes: bool = True
) -> list[Any]:
    """Apply a response of node 1 with records of partition 0; the leaders that it names."""
    part = _PART(
        partition_index=0, error_code=code, error_message=None,
        acknowledge_error_code=0, acknowledge_error_message=None,
        current_leader=_PART.LeaderIdAndEpoch(leader_id=leader, leader_epoch=1),
        records=batch(*[b"x"] * records) if records else b"",
        acquired_records=[_PART.AcquiredRecords(first_offset=0, last_offset=records - 1, delivery_count=1)]
        if records
        else [],
    )  # fmt: skip
    leaders: list[Any] = []
    answer = FetchAnswer(None, [FetchedPartition(ZERO, code, "", part)], 30_000)
    core.on_fetch(core.node(1), answer, 0, lambda *named: leaders.append(named))
    if decodes:
        core.add_decoded(core.decode(core.take_arrived()), 0)
    return leaders


def pending(core: ConsumerCore) -> dict[TopicIdPartition, dict[int, AcknowledgeType]]:
    return {one.source: one.types for node in core.nodes.values() for one in node._pending.values()}


def test_poll_without_a_subscription_is_refused() -> None:
    core = new_core()
    core.membership.subscribe(())
    with pytest.raises(IllegalStateError, match="not subscribed to any topics"):
        core.begin_poll(0)


def test_implicit_mode_accepts_what_was_delivered_and_no_more() -> None:
    core = new_core(share_acquire_mode="record_limit", max_poll_records=2)
    receive(core, 3)
    assert [record.offset for record in core.deliver(0)] == [0, 1]
    core.begin_poll(0)
    assert pending(core) == {ZERO: {0: AcknowledgeType.ACCEPT, 1: AcknowledgeType.ACCEPT}}
    assert [record.offset for record in core.deliver(0)] == [2]


def test_implicit_mode_refuses_acknowledgements() -> None:
    with pytest.raises(IllegalStateError, match="Implicit acknowledgement of delivery is being used"):
        new_core().check_explicit()


def test_explicit_mode_needs_all_acknowledgements_before_a_poll() -> None:
    core = new_core(share_acknowledgement_mode="explicit")
    receive(core, 2)
    first, second = core.deliver(0)
    core.in_hand.acknowledge(first, AcknowledgeType.ACCEPT)
    with pytest.raises(IllegalStateError, match="All records must be acknowledged"):
        core.begin_poll(0)
    core.in_hand.acknowledge(second, AcknowledgeType.REJECT)
    core.begin_poll(0)
    assert pending(core) == {ZERO: {0: AcknowledgeType.ACCEPT, 1: AcknowledgeType.REJECT}}


def test_handler_loop_polls_with_records_in_hand() -> None:
    core = new_core(share_acknowledgement_mode="explicit")
    core.in_hand.keeps_renewed = True
    receive(core, 2)
    core.deliver(0)
    core.begin_poll(0)
    assert pending(core) == {}


def test_batch_mode_fetches_from_all_leaders() -> None:
    core = new_core()
    plans = core.plan_fetches({ZERO: 1, ONE: 2, TWO: 1}, is_fetching=False)
    assert {node.node_id: wanted for node, wanted in plans} == {1: [ZERO, TWO], 2: [ONE]}


def test_record_limit_asks_one_leader_at_a_time_in_turn() -> None:
    core = new_core(share_acquire_mode="record_limit")
    leaders = {ZERO: 1, ONE: 2}
    asked = [core.plan_fetches(leaders, is_fetching=False)[0][0].node_id for _ in range(3)]
    assert asked == [1, 2, 1]
    assert core.plan_fetches(leaders, is_fetching=True) == []
    receive(core, 1)
    assert core.plan_fetches(leaders, is_fetching=False) == []


def test_leader_that_has_no_more_records_keeps_its_turn() -> None:
    core = new_core(share_acquire_mode="record_limit")
    leaders = {ZERO: 1, ONE: 2}
    core.node(1).has_backlog = True
    assert core.plan_fetches(leaders, is_fetching=False)[0][0].node_id == 1
    assert core.plan_fetches(leaders, is_fetching=False, is_ahead=True) == []
    assert core.plan_fetches(leaders, is_fetching=False)[0][0].node_id == 2


def test_leader_whose_records_wait_for_a_poll_is_not_asked() -> None:
    core = new_core()
    receive(core, 1, decodes=False)
    core.node(1).has_backlog = True
    assert core.plan_fetches({ZERO: 1}, is_fetching=False, is_ahead=True) == []
    assert [node.node_id for node, _ in core.plan_fetches({ZERO: 1, ONE: 2}, is_fetching=False)] == [2]
    core.take_arrived()
    assert len(core.plan_fetches({ZERO: 1}, is_fetching=False, is_ahead=True)) == 1


@pytest.mark.parametrize(("processing_ms", "is_quick"), [(7_500, True), (7_501, False)])
def test_quick_application_lets_records_be_fetched_ahead(processing_ms: int, is_quick: bool) -> None:
    core = new_core()
    core.begin_poll(0)
    receive(core, 1)
    core.deliver(100)
    assert not core.may_fetch_ahead
    core.begin_poll(100 + processing_ms)
    assert core.may_fetch_ahead == is_quick
    core.begin_handling()
    assert not core.may_fetch_ahead


def test_records_of_a_session_that_ended_are_dropped() -> None:
    core = new_core()
    receive(core, 1)
    core.node(1).on_lost("the connection was lost")
    core.add_decoded((), 0)
    assert core.deliver(0) == []


def test_records_that_no_poll_returns_are_released_without_decoding_them() -> None:
    def fail(_data: bytes) -> None:
        pytest.fail("the deserializer was called")

    core = new_core(value_deserializer=fail)
    receive(core, 2, decodes=False)
    core.release_unpolled(0)
    assert not core.has_records
    assert pending(core) == {ZERO: {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.RELEASE}}


def test_responses_of_a_cancelled_poll_are_decoded_by_the_next() -> None:
    core = new_core()
    receive(core, 1, decodes=False)
    arrived = core.take_arrived()
    receive(core, 2, decodes=False)
    core.put_back(arrived)
    core.add_decoded(core.decode(core.take_arrived()), 0)
    assert [record.offset for record in core.deliver(0)] == [0, 0, 1]


@pytest.mark.parametrize(("topics", "partitions"), [(["orders"], (1,)), (["bills"], (0,))])
def test_fetched_records_of_a_lost_partition_are_released(topics: list[str], partitions: tuple[int, ...]) -> None:
    core = new_core()
    receive(core, 2)
    core.membership.subscribe(topics)
    core.membership.assignment, core.membership.generation = {TOPIC: partitions}, 1
    core.add_decoded((), 0)
    assert core.deliver(0) == []
    assert pending(core) == {ZERO: {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.RELEASE}}


def test_fenced_member_keeps_fetched_records() -> None:
    core = new_core()
    receive(core, 1)
    core.membership.generation = 1
    core.add_decoded((), 0)
    assert len(core.deliver(0)) == 1


def test_iteration_polls_before_it_gets_later_records() -> None:
    core = new_core()
    receive(core, 1)
    core.begin_iteration(0)
    receive(core, 1)
    assert core.deliver_one(0) is not None
    assert core.deliver_one(0) is None
    core.begin_iteration(0)
    assert core.deliver_one(29_999) is not None


def test_iteration_skips_records_whose_locks_ended() -> None:
    core = new_core()
    receive(core, 2)
    core.begin_iteration(0)
    assert core.deliver_one(30_000) is None
    assert len(core.in_hand) == 0


def test_new_leader_of_a_response_is_noted() -> None:
    assert receive(new_core(), 0, code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=3) == [(TOPIC, 0, 3)]


def test_refused_topic_is_raised() -> None:
    core = new_core()
    receive(core, 0, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(RequestError, match="TOPIC_AUTHORIZATION_FAILED: cannot fetch records of topic orders"):
        core.raise_problem()
    core.raise_problem()


def test_result_of_gaps_alone_is_not_reported() -> None:
    core = new_core()
    core.node(1).results = [AcknowledgeResult(ZERO, {1: AcknowledgeType.GAP}, None)]
    assert core.take_results(0) == []


def test_errors_of_acknowledgements_are_counted_in_records() -> None:
    """As in Kafka, where a metric of a consumer counts records and not requests; gaps are no records."""
    core, error = new_core(), RequestError(ErrorCode.INVALID_RECORD_STATE, "")
    types = dict.fromkeys(range(3), AcknowledgeType.ACCEPT) | {3: AcknowledgeType.GAP}
    core.node(1).results = [AcknowledgeResult(ZERO, types, error), AcknowledgeResult(ONE, types, None)]
    core.take_results(0)
    found = core.metrics.values(0)[FETCH_MANAGER]
    assert (found["acknowledgements-send-total"], found["acknowledgements-error-total"]) == (6, 3)


def test_partition_with_one_failure_has_failed() -> None:
    error = RequestError(ErrorCode.INVALID_RECORD_STATE, "")
    accepted = {1: AcknowledgeType.ACCEPT}
    results = [AcknowledgeResult(ZERO, accepted, problem) for problem in (None, error, None)]
    assert commit_results([*results, AcknowledgeResult(ONE, accepted, None)]) == {ZERO: error, ONE: None}


def test_errors_of_partitions_are_kept_once() -> None:
    """An application may go on polling after an error, and a poll raises one error."""
    core = new_core()
    refused = [
        FetchedPartition(
            source,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "",
            _PART(
                partition_index=source.partition,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=None,
                acknowledge_error_code=0,
                acknowledge_error_message=None,
                current_leader=_PART.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                records=b"",
                acquired_records=[],
            ),
        )
        for source in (ZERO, ONE, TWO)
    ]
    for _ in range(3):
        core.on_fetch(core.node(1), FetchAnswer(None, refused, 0), 0, lambda *_: None)
    with pytest.raises(RequestError):
        core.raise_problem()
    core.raise_problem()
