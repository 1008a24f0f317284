"""The members of a share group in memory, managed by the state machine of the group coordinator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import SharePartitionStatus
from sharegroup.core.group_coordinator.results import CoordinatorResult
from sharegroup.core.group_coordinator.share_group import ShareGroup
from sharegroup.errors import ErrorCode
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.topic_ids import parse_topic_id

#: The interval is short, so that the partitions of a member that left are assigned to others within milliseconds.
_HEARTBEAT_INTERVAL_MS = 100


class GroupMembers:
    """The members of the group and their assignments. Their sessions never time out.

    `release` is called with the member id of each member that leaves.
    """

    def __init__(self, group_id: str, config: GroupConfig, release: Callable[[str], None]) -> None:
        self._config = dataclasses.replace(
            config, heartbeat_interval_ms=_HEARTBEAT_INTERVAL_MS, assignment_interval_ms=0
        )
        self._group, self._release = ShareGroup(GroupMetadata(group_id)), release

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, topics: Mapping[str, TopicMetadata], now_ms: int
    ) -> ShareGroupHeartbeatResponse:
        """Process a heartbeat and return the response. Partitions of new topics are assigned immediately."""
        names = request.subscribed_topic_names
        row = HeartbeatRequest(
            "",
            request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack_id=request.rack_id,
            client_id=client_id,
            subscribed_topic_names=None if names is None else tuple(names),
            topics=topics,
        )
        result = self._apply(self._group.heartbeat(row, now_ms, self._config))
        if self._initialize(now_ms):
            result = self._apply(self._group.heartbeat(row, now_ms, self._config))
        assert isinstance(result.response, HeartbeatResponse)
        return _on_wire(result.response)

    def _initialize(self, now_ms: int) -> bool:
        """Initialize the share-partitions that the last heartbeat created. Return whether there were any."""
        new = [
            (topic_id, partition, record.state_epoch)
            for topic_id, records in self._group.metadata.share_partitions.items()
            for partition, record in records.items()
            if record.status is SharePartitionStatus.INITIALIZING
        ]
        if new:
            self._apply(self._group.handle_initialized(new, now_ms))
            self._apply(self._group.update_assignment(now_ms, self._config))
        return bool(new)

    def _apply(self, result: CoordinatorResult) -> CoordinatorResult:
        self._group.apply(result)
        for released in result.releases:
            self._release(released.member_id)
        return result


def heartbeat_error(code: ErrorCode, message: str) -> ShareGroupHeartbeatResponse:
    """Return the response to a heartbeat that is rejected."""
    return _on_wire(HeartbeatResponse("", "", "", code, message, member_id=""))


def _on_wire(row: HeartbeatResponse) -> ShareGroupHeartbeatResponse:
    assignment: Any = None
    if row.assignment is not None:
        classes = ShareGroupHeartbeatResponse.Assignment
        topics = [
            classes.TopicPartitions(topic_id=parse_topic_id(topic_id), partitions=partitions)
            for topic_id, partitions in row.assignment.values()
        ]
        assignment = classes(topic_partitions=topics)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=int(row.error_code),
        error_message=row.error_message,
        member_id=row.member_id,
        member_epoch=row.member_epoch,
        heartbeat_interval_ms=row.heartbeat_interval_ms,
        assignment=assignment,
    )
