"""The share session with one leader, and the acknowledgements that it carries."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.share_node import FetchLimits, ShareNode
from sharegroup.client.records import TopicIdPartition
from sharegroup.errors import ErrorCode
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from sharegroup.types import AcknowledgeType

TOPIC = UUID(int=7)
ZERO, ONE = TopicIdPartition(TOPIC, 0, "orders"), TopicIdPartition(TOPIC, 1, "orders")
LIMITS = FetchLimits(500, 1, 1_000, 10, is_record_limit=False)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW
DEADLINE_MS = 1_000


def part_of(message: Any, source: TopicIdPartition, code: int, acknowledge_code: int) -> Any:
    part = message.PartitionData
    fields: dict[str, Any] = {
        "partition_index": source.partition,
        "error_code": code,
        "error_message": None,
        "current_leader": part.LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
    }
    if message is ShareFetchResponse.ShareFetchableTopicResponse:
        fields |= {
            "acknowledge_error_code": acknowledge_code, "acknowledge_error_message": None, "records": b"",
            "acquired_records": [],
        }  # fmt: skip
    return part(**fields)


def fetched(*sources: TopicIdPartition, code: int = 0, acknowledge_code: int = 0, error: int = 0) -> ShareFetchResponse:
    topic = ShareFetchResponse.ShareFetchableTopicResponse
    parts = [part_of(topic, source, code, acknowledge_code) for source in sources]
    return ShareFetchResponse(
        throttle_time_ms=0, error_code=error, error_message=None, acquisition_lock_timeout_ms=30_000,
        responses=[topic(topic_id=TOPIC, partitions=parts)], node_endpoints=[],
    )  # fmt: skip


def acknowledged(*sources: TopicIdPartition, code: int = 0, error: int = 0) -> ShareAcknowledgeResponse:
    topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    parts = [part_of(topic, source, code, 0) for source in sources]
    return ShareAcknowledgeResponse(
        throttle_time_ms=0, error_code=error, error_message=None, acquisition_lock_timeout_ms=20_000,
        responses=[topic(topic_id=TOPIC, partitions=parts)], node_endpoints=[],
    )  # fmt: skip


def listed(request: ShareFetchRequest | ShareAcknowledgeRequest) -> dict[int, list[tuple[int, int, tuple[int, ...]]]]:
    return {
        part.partition_index: [
            (batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
            for batch in part.acknowledgement_batches
        ]
        for topic in request.topics
        for part in topic.partitions
    }


def forgotten(request: ShareFetchRequest) -> list[int]:
    return [partition for topic in request.forgotten_topics_data for partition in topic.partitions]


def errors(node: ShareNode) -> list[ErrorCode | None]:
    results, node.results = node.results, []
    return [result.error.code if result.error else None for result in results]


def opened(*sources: TopicIdPartition) -> ShareNode:
    node = ShareNode(1, "group", "member")
    assert node.fetch(sources, LIMITS).share_session_epoch == 0
    node.on_fetch(fetched(*sources), 0)
    return node


def test_epochs_count_the_requests_of_a_session() -> None:
    node = opened(ZERO)
    assert node.fetch([ZERO], LIMITS).share_session_epoch == 1
    node.on_fetch(fetched(ZERO), 0)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    request = node.acknowledge()
    assert request is not None
    assert request.share_session_epoch == 2
    node.on_acknowledge(acknowledged(ZERO), 0)
    node.epoch = 2**31 - 1
    node.fetch([ZERO], LIMITS)
    node.on_fetch(fetched(ZERO), 0)
    assert node.epoch == 1


def test_later_fetch_lists_only_changes() -> None:
    node = opened(ZERO)
    request = node.fetch([ZERO, ONE], LIMITS)
    assert (listed(request), forgotten(request)) == ({1: []}, [])
    node.on_fetch(fetched(ZERO, ONE), 0)
    request = node.fetch([ONE], LIMITS)
    assert (listed(request), forgotten(request)) == ({}, [0])


def test_partition_listed_for_an_acknowledgement_is_forgotten() -> None:
    node = opened(ZERO, ONE)
    node.fetch([ZERO], LIMITS)
    node.on_fetch(fetched(ZERO), 0)
    node.add(ONE, {3: ACCEPT}, DEADLINE_MS)
    request = node.fetch([ZERO], LIMITS)
    assert (listed(request), forgotten(request)) == ({1: [(3, 3, (1,))]}, [1])
    node.on_fetch(fetched(ZERO, ONE), 0)
    assert list(node.partitions) == [ZERO]
    assert errors(node) == [None]


@pytest.mark.parametrize(
    ("limits", "records", "size", "has_backlog"),
    [
        (LIMITS, 5, 1, True),
        (LIMITS, 4, 1, False),
        (LIMITS, 1, 250, True),
        (LIMITS, 1, 249, False),
        (LIMITS._replace(max_wait_ms=0), 1, 1, True),
        (LIMITS._replace(max_wait_ms=0), 0, 0, False),
    ],
)
def test_half_full_response_shows_a_backlog(limits: FetchLimits, records: int, size: int, has_backlog: bool) -> None:
    """Half of the bytes are those of one of the two partitions. A server that does not wait has had the records."""
    node = opened(ZERO, ONE)
    response = fetched(ZERO)
    part = response.responses[0].partitions[0]
    if records:
        part.records = b"x" * size
        part.acquired_records = [
            ShareFetchResponse.ShareFetchableTopicResponse.PartitionData.AcquiredRecords(
                first_offset=0, last_offset=records - 1, delivery_count=1
            )
        ]
    node.fetch([ZERO, ONE], limits)
    node.on_fetch(response, 0)
    assert node.has_backlog == has_backlog
    node.on_lost("the connection was lost")
    assert not node.has_backlog


def test_acknowledgements_are_runs_of_offsets() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT, 6: ACCEPT, 9: RELEASE}, DEADLINE_MS)
    node.add(ZERO, {10: ACCEPT, 6: ACCEPT}, DEADLINE_MS)
    assert listed(node.fetch([ZERO], LIMITS)) == {0: [(5, 6, (1,)), (9, 10, (2, 1))]}


def test_renewals_are_marked_and_return_the_lock_timeout() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: RENEW}, DEADLINE_MS)
    assert node.has_renewals
    request = node.acknowledge()
    assert request is not None
    assert request.is_renew_ack
    node.on_acknowledge(acknowledged(ZERO), 0)
    assert node.results[0].lock_timeout_ms == 20_000


def test_renewals_do_not_ride_on_a_fetch() -> None:
    node = opened(ZERO, ONE)
    node.add(ZERO, {5: RENEW}, DEADLINE_MS)
    node.add(ONE, {6: ACCEPT}, DEADLINE_MS)
    request = node.fetch([ZERO, ONE], LIMITS)
    assert (listed(request), request.is_renew_ack) == ({1: [(6, 6, (1,))]}, False)
    node.on_fetch(fetched(ZERO, ONE), 0)
    assert (errors(node), node.has_renewals) == ([None], True)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ],
)
def test_session_that_the_server_lost_is_opened_again(code: ErrorCode) -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    node.fetch([ZERO], LIMITS)
    answer = node.on_fetch(fetched(error=code), 0)
    assert answer.problem is not None
    assert answer.problem.code == code
    assert errors(node) == [code]
    request = node.fetch([ZERO], LIMITS)
    assert (request.share_session_epoch, listed(request)) == (0, {0: []})


def test_other_errors_of_a_request_keep_the_session() -> None:
    node = opened(ZERO)
    node.fetch([ZERO], LIMITS)
    node.on_fetch(fetched(error=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0)
    assert node.epoch == 2


def test_no_acknowledgement_is_sent_without_a_session() -> None:
    node = opened(ZERO)
    node.on_lost("the connection was lost")
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    assert listed(node.fetch([ZERO], LIMITS)) == {0: []}
    assert errors(node) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_lost_request_fails_its_acknowledgements() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    node.acknowledge()
    node.on_lost("the connection was lost")
    assert errors(node) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert node.epoch == 0


def test_passing_error_is_retried_until_the_deadline() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    node.acknowledge()
    node.on_acknowledge(acknowledged(ZERO, code=ErrorCode.COORDINATOR_NOT_AVAILABLE), DEADLINE_MS - 1)
    assert (errors(node), node.has_pending, node.has_retries) == ([], True, True)
    node.acknowledge()
    node.on_acknowledge(acknowledged(ZERO, code=ErrorCode.COORDINATOR_NOT_AVAILABLE), DEADLINE_MS)
    assert (errors(node), node.has_pending) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], False)
    assert not node.has_retries


def test_moved_leader_is_not_retried_because_the_locks_are_gone() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    node.fetch([ZERO], LIMITS)
    answer = node.on_fetch(fetched(ZERO, code=6, acknowledge_code=6), 0)
    assert errors(node) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [part.code for part in answer.partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_partition_that_the_response_leaves_out_has_no_success() -> None:
    node = opened(ZERO, ONE)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    node.add(ONE, {6: ACCEPT}, DEADLINE_MS)
    node.acknowledge()
    node.on_acknowledge(acknowledged(ZERO), 0)
    assert errors(node) == [None, ErrorCode.INVALID_RECORD_STATE]


def test_final_request_ends_the_session_with_the_last_acknowledgements() -> None:
    node = opened(ZERO)
    node.add(ZERO, {5: ACCEPT}, DEADLINE_MS)
    request = node.acknowledge(is_final=True)
    assert request is not None
    assert (request.share_session_epoch, listed(request)) == (-1, {0: [(5, 5, (1,))]})
    node.on_acknowledge(acknowledged(ZERO), 0)
    assert (node.epoch, errors(node)) == (0, [None])
    assert node.acknowledge(is_final=True) is None
