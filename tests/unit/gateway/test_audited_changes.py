"""Administrators' changes through the gateway's handlers are in the audit log, whether they succeed or fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.configs.alter_configs import IncrementalAlterConfigs
from sharegroup.gateway.handlers.groups.change_offsets import AlterShareGroupOffsets, DeleteShareGroupOffsets
from sharegroup.gateway.handlers.groups.delete_groups import DeleteGroups
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sharegroup.protocol.rows.share_group_responses import PartitionError, TopicError
from tests.unit.gateway.scripted_upstream import (
    ALICE,
    EVERYTHING_ALLOWED,
    FixedTables,
    NoOtherGroups,
    RecordedRequests,
    ScriptedUpstream,
    answer,
)

BUSY = RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
TOPICS = {"orders": 3, "bills": 1}
GROUP, SET = 32, 0
SECRET = "hunter2"
Lines = Callable[[str], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Return the lines of an API so far, without the part that is the same in all of them."""
    caplog.set_level(logging.INFO, "sharegroup.audit")

    def found(api: str) -> list[str]:
        assert SECRET not in caplog.text
        who = f"principal=User:alice address=127.0.0.1 api={api} "
        texts = [record.getMessage() for record in caplog.records if record.name == "sharegroup.audit"]
        assert all(who in text for text in texts)
        return [text.replace(who, "") for text in texts]

    return found


def ask(handler: Any, message: Any, response: Any, version: int, api: str) -> Any:
    return answer(handler, message, response, version, replace(ALICE, api=api))


class NoConfigs:
    async def refresh(self) -> None:
        """Do nothing: there are no configs."""


@pytest.mark.parametrize(("validate_only", "count"), [(False, 2), (True, 0)])
def test_config_changes_are_audited(lines: Lines, validate_only: bool, count: int) -> None:
    """The line has names but no values, which may be passwords."""
    item = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = item.AlterableConfig(name="share.isolation.level", config_operation=SET, value=SECRET)
    resources = [item(resource_type=GROUP, resource_name=name, configs=[change]) for name in ("g", "busy")]
    requests = RecordedRequests({"busy": BUSY})
    handler = IncrementalAlterConfigs(requests, NoConfigs(), ScriptedUpstream(), EVERYTHING_ALLOWED)  # type: ignore[arg-type]
    message = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    ask(handler, message, IncrementalAlterConfigsResponse, 1, "IncrementalAlterConfigs")
    assert len(requests.rows) == 2
    assert (
        lines("IncrementalAlterConfigs")
        == [
            "change outcome=done resource=group:g detail=share.isolation.level",
            "change outcome=failed resource=group:busy error=NON_EMPTY_GROUP detail=share.isolation.level",
        ][:count]
    )


def test_group_deletions_are_audited(lines: Lines) -> None:
    tables = FixedTables(groups={"g": "Empty", "busy": "Stable"})
    handler = DeleteGroups(RecordedRequests({"busy": BUSY}), tables, ScriptedUpstream(), EVERYTHING_ALLOWED)  # type: ignore[arg-type]
    ask(handler, DeleteGroupsRequest(groups_names=["g", "busy"]), DeleteGroupsResponse, 2, "DeleteGroups")
    assert lines("DeleteGroups") == [
        "change outcome=done resource=group:g",
        "change outcome=failed resource=group:busy error=NON_EMPTY_GROUP",
    ]


def test_offset_changes_are_audited(lines: Lines) -> None:
    """There is a line for each topic, or one for the group if the whole request is rejected."""
    errors = PartitionError("orders", 0, 0, None), PartitionError("bills", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    requests = RecordedRequests({"busy": BUSY, "g": {"partition_errors": errors}})
    handler = AlterShareGroupOffsets(
        requests,
        ScriptedUpstream(topics=TOPICS),  # type: ignore[arg-type]
        EVERYTHING_ALLOWED,
        NoOtherGroups(),  # type: ignore[arg-type]
    )
    of = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    partition = of.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=5)
    topics = [of(topic_name=name, partitions=[partition]) for name in TOPICS]
    for group_id in ("g", "busy"):
        message = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        ask(handler, message, AlterShareGroupOffsetsResponse, 0, "AlterShareGroupOffsets")
    assert lines("AlterShareGroupOffsets") == [
        "change outcome=done resource=group:g detail=orders",
        "change outcome=failed resource=group:g error=UNKNOWN_TOPIC_OR_PARTITION detail=bills",
        "change outcome=failed resource=group:busy error=NON_EMPTY_GROUP",
    ]


def test_offset_deletions_are_audited(lines: Lines) -> None:
    requests = RecordedRequests({"busy": BUSY, "g": {"topic_errors": (TopicError("orders", 0, None),)}})
    handler = DeleteShareGroupOffsets(
        requests,
        ScriptedUpstream(topics=TOPICS),  # type: ignore[arg-type]
        EVERYTHING_ALLOWED,
        NoOtherGroups(),  # type: ignore[arg-type]
    )
    of = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    for group_id in ("g", "busy"):
        message = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=[of(topic_name="orders")])
        ask(handler, message, DeleteShareGroupOffsetsResponse, 0, "DeleteShareGroupOffsets")
    assert lines("DeleteShareGroupOffsets") == [
        "change outcome=done resource=group:g detail=orders",
        "change outcome=failed resource=group:busy error=NON_EMPTY_GROUP",
    ]
