"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: lag, rows, errors per topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.groups.change_offsets import AlterShareGroupOffsets, DeleteShareGroupOffsets
from sharegroup.gateway.handlers.groups.describe_offsets import DescribeShareGroupOffsets, lag
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sharegroup.protocol.rows.share_group_requests import (
    AlterOffsetsRequest,
    DeleteOffsetsRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_group_responses import PartitionError, TopicError
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.security.acl import Acl
from sharegroup.security.authorization import Authorization
from sharegroup.storage import SharePartitionOffset
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import (
    EVERYTHING_ALLOWED,
    FixedTables,
    NoOtherGroups,
    RecordedRequests,
    ScriptedUpstream,
    T,
    answer,
)

UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_OTHER_GROUPS = NoOtherGroups()
NOT_ALLOWED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def row(topic: str, partition: int, start_offset: int, finished: int) -> SharePartitionOffset:
    return SharePartitionOffset(topic, topic_id_text(T), partition, start_offset, 4, finished, 1)


#: Rights on the topics of all groups.
READS_NOTHING, READS_O = alice_may("All group *"), alice_may("All group *", "Read topic o*")
ROWS = (row("orders", 0, 100, 7), row("orders", 1, 50, -1), row("orders", 2, -1, -1), row("gone", 0, 5, 0))


def ends(**by_topic: dict[int, int]) -> Any:
    """Return a ListOffsets handler with these log end offsets; other partitions have an error."""

    def answer_offsets(request: Any) -> Any:
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic.name,
                    partitions=[
                        SimpleNamespace(
                            partition_index=asked.partition_index,
                            error_code=0 if asked.partition_index in by_topic.get(topic.name, {}) else 6,
                            offset=by_topic.get(topic.name, {}).get(asked.partition_index, -1),
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer_offsets


# -- describe


def describe(
    topics: list[tuple[str, list[int]]] | None,
    rows: tuple[SharePartitionOffset, ...] = ROWS,
    version: int = 1,
    log_ends: Any = None,
    security: Authorization = EVERYTHING_ALLOWED,
) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Return {(topic, partition): (start offset, lag, error code)}."""
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    asked = None
    if topics is not None:
        topic = group.DescribeShareGroupOffsetsRequestTopic
        asked = [topic(topic_name=name, partitions=partitions) for name, partitions in topics]
    cluster = ScriptedUpstream({"ListOffsetsRequest": log_ends or ends(orders={0: 130, 1: 60})}, topics={"orders": 3})
    handler = DescribeShareGroupOffsets(FixedTables(offsets=rows), cluster, security)
    request = DescribeShareGroupOffsetsRequest(groups=[group(group_id="g", topics=asked)])
    (found,) = answer(handler, request, DescribeShareGroupOffsetsResponse, version).groups
    assert (found.group_id, found.error_code) == ("g", 0)
    return {
        (item.topic_name, partition.partition_index): (partition.start_offset, partition.lag, partition.error_code)
        for item in found.topics
        for partition in item.partitions
    }


def test_all_offsets_of_existing_topics_are_described() -> None:
    assert describe(None) == {("orders", 0): (100, 23, 0), ("orders", 1): (50, -1, 0), ("orders", 2): (-1, -1, 0)}


def test_offsets_of_an_earlier_topic_of_the_name_are_omitted() -> None:
    old = SharePartitionOffset("orders", topic_id_text(UUID(int=8)), 0, 70, 4, 0, 1)
    both = (old, row("orders", 0, 100, 7))
    assert describe(None, both) == describe([("orders", [0])], both) == {("orders", 0): (100, 23, 0)}
    assert describe(None, both[::-1]) == {("orders", 0): (100, 23, 0)}
    assert describe([("orders", [0])], (old,)) == {("orders", 0): (-1, -1, 0)}
    assert describe(None, (old,)) == {}


def test_version_0_has_no_lag() -> None:
    assert describe(None, version=0)["orders", 0][0] == 100


def test_partition_without_offset_has_no_start_offset() -> None:
    asked = [("orders", [0, 9]), ("nowhere", [1]), ("gone", [0])]
    found = {("orders", 0): (100, 23, 0), ("orders", 9): (-1, -1, 0), ("nowhere", 1): (-1, -1, 0)}
    assert describe(asked) == found | {("gone", 0): (-1, -1, 0)}
    assert describe([]) == {}


def test_lag_is_unknown_if_the_leader_does_not_respond() -> None:
    assert describe([("orders", [0])], log_ends=ends()) == {("orders", 0): (100, -1, 0)}


def test_hidden_topics_are_omitted_or_rejected() -> None:
    assert describe(None, security=READS_NOTHING) == {}
    assert describe([("orders", [0])], security=READS_NOTHING) == {("orders", 0): (-1, -1, NOT_ALLOWED)}
    assert describe([("orders", [0])], security=READS_O) == {("orders", 0): (100, 23, 0)}


@pytest.mark.parametrize(
    ("start_offset", "finished", "log_end", "expected"),
    [(10, 0, 10, 0), (10, 3, 20, 7), (10, 3, None, -1), (-1, 0, 20, -1), (10, -1, 20, -1), (10, 3, 11, 0)],
)
def test_lag(start_offset: int, finished: int, log_end: int | None, expected: int) -> None:
    assert lag(row("t", 0, start_offset, finished), log_end) == expected


def test_group_is_rejected_separately() -> None:
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    request = DescribeShareGroupOffsetsRequest(groups=[group(group_id=name, topics=None) for name in ("g", "h")])
    tables = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    handler = DescribeShareGroupOffsets(tables, ScriptedUpstream(), EVERYTHING_ALLOWED)
    groups = answer(handler, request, DescribeShareGroupOffsetsResponse, 1).groups
    assert [(found.group_id, found.error_code, found.topics) for found in groups] == [("g", 15, []), ("h", 15, [])]


# -- alter


def alter(
    requests: RecordedRequests,
    *offsets: tuple[str, int, int],
    security: Authorization = EVERYTHING_ALLOWED,
    cluster: ScriptedUpstream | None = None,
    groups: Any = NO_OTHER_GROUPS,
) -> Any:
    topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    partition = topic.AlterShareGroupOffsetsRequestPartition
    request = AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            topic(topic_name=name, partitions=[partition(partition_index=index, start_offset=offset)])
            for name, index, offset in offsets
        ],
    )
    handler: Any = AlterShareGroupOffsets
    handler = handler(requests, cluster or ScriptedUpstream(topics={"orders": 3}), security, groups)
    return answer(handler, request, AlterShareGroupOffsetsResponse, 0)


def errors_of(response: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic_name, partition.partition_index, partition.error_code)
        for topic in response.responses
        for partition in topic.partitions
    ]


def test_alteration_sends_a_row_with_topic_metadata() -> None:
    answers = PartitionError("orders", 1, 0, None), PartitionError("nowhere", 0, UNKNOWN_TOPIC, "unknown")
    requests = RecordedRequests({"g": {"partition_errors": answers}})
    response = alter(requests, ("orders", 1, 40), ("nowhere", 0, 1))
    assert errors_of(response) == [("orders", 1, 0), ("nowhere", 0, UNKNOWN_TOPIC)]
    assert [topic.topic_id for topic in response.responses] == [T, None]
    offsets = StartOffset("orders", 1, 40), StartOffset("nowhere", 0, 1)
    topics = {"orders": TopicMetadata(topic_id_text(T), 3)}
    assert requests.rows == [AlterOffsetsRequest("1", "g", "gateway", offsets=offsets, topics=topics)]


def test_unknown_partition_refreshes_the_metadata() -> None:
    cluster = ScriptedUpstream(topics={"orders": 3})
    alter(RecordedRequests(), ("orders", 2, 0), cluster=cluster)
    assert not cluster.refreshed
    alter(RecordedRequests(), ("orders", 3, 0), cluster=cluster)
    assert cluster.refreshed == 1


def test_alteration_is_rejected_as_a_whole() -> None:
    requests = RecordedRequests({"g": RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")})
    response = alter(requests, ("orders", 1, 40))
    assert (response.error_code, response.error_message) == (68, "The group is not empty.")
    assert not response.responses


def test_alteration_rejects_topics_without_permission() -> None:
    requests = RecordedRequests({"g": {"partition_errors": (PartitionError("orders", 1, 0, None),)}})
    response = alter(requests, ("secret", 0, 4), ("orders", 1, 40), security=READS_O)
    assert errors_of(response) == [("orders", 1, 0), ("secret", 0, NOT_ALLOWED)]
    (row,) = requests.rows
    assert isinstance(row, AlterOffsetsRequest)
    assert row.offsets == (StartOffset("orders", 1, 40),)
    nothing = RecordedRequests()
    assert errors_of(alter(nothing, ("secret", 0, 4), security=READS_NOTHING)) == [("secret", 0, NOT_ALLOWED)]
    assert not nothing.rows
    assert alter(nothing, ("orders", 1, 40), security=Authorization(Acl([]))).error_code == 30


# -- delete


def delete(
    requests: RecordedRequests,
    *names: str,
    security: Authorization = EVERYTHING_ALLOWED,
    groups: Any = NO_OTHER_GROUPS,
) -> Any:
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    request = DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic(topic_name=name) for name in names])
    handler: Any = DeleteShareGroupOffsets
    handler = handler(requests, ScriptedUpstream(topics={"orders": 3}), security, groups)
    return answer(handler, request, DeleteShareGroupOffsetsResponse, 0)


def test_offsets_are_deleted_by_topic() -> None:
    errors = (
        TopicError("orders", UNKNOWN_TOPIC, "There is no offset information to delete."),
        TopicError("gone", 0, None),
        TopicError("nowhere", UNKNOWN_TOPIC, "There is no offset information to delete."),
    )
    requests = RecordedRequests({"g": {"topic_errors": errors}})
    response = delete(requests, "orders", "gone", "nowhere")
    assert requests.rows == [DeleteOffsetsRequest("1", "g", "gateway", topic_names=("orders", "gone", "nowhere"))]
    assert [(topic.topic_name, topic.error_code, topic.error_message) for topic in response.responses] == [
        ("orders", 3, "There is no offset information to delete."),
        ("gone", 0, None),
        ("nowhere", 3, "This server does not host this topic-partition."),
    ]


def test_deletion_is_rejected_as_a_whole_or_per_topic() -> None:
    unknown = RecordedRequests({"g": RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")})
    response = delete(unknown, "orders")
    assert (response.error_code, response.error_message, response.responses) == (69, "Group g not found.", [])
    requests = RecordedRequests({"g": {"topic_errors": (TopicError("orders", 0, None),)}})
    response = delete(requests, "secret", "orders", security=READS_O)
    assert [(topic.topic_name, topic.error_code) for topic in response.responses] == [
        ("orders", 0),
        ("secret", NOT_ALLOWED),
    ]
    assert requests.rows == [DeleteOffsetsRequest("1", "g", "gateway", topic_names=("orders",))]
    assert delete(requests, "orders", security=Authorization(Acl([]))).error_code == 30


class OtherGroups(NoOtherGroups):
    """Upstream groups that are all of another type."""

    async def check_joined(self, node_id: int, group_id: str) -> None:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


@pytest.mark.parametrize("is_alteration", [True, False])
def test_offsets_of_a_group_of_another_type_are_rejected(is_alteration: bool) -> None:
    requests, groups = RecordedRequests(), OtherGroups()
    if is_alteration:
        response = alter(requests, ("orders", 1, 40), groups=groups)
    else:
        response = delete(requests, "orders", groups=groups)
    assert (response.error_code, response.error_message) == (69, "Group g is not a share group.")
    assert not response.responses
    assert not requests.rows
