"""ShareGroupHeartbeat: who would join a group of another kind is refused before the job hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.protocol.share_group_responses import HeartbeatResponse
from tests.unit.gateway.scripted_upstream import ALICE, EVERYTHING_ALLOWED, ScriptedUpstream, answer


class Job:
    """A group coordinator to which every heartbeat is welcome."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def new_id(self) -> str:
        return "1"

    async def ask(self, row: Any) -> HeartbeatResponse:
        self.rows.append(row)
        return HeartbeatResponse("1", "gateway", row.group_id, member_id=row.member_id, member_epoch=1)


class NotShareGroups:
    """The group `classic` is none."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    async def check_joined(self, node_id: int, group_id: str) -> None:
        self.asked.append((node_id, group_id))
        if group_id == "classic":
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "not a share group")


@pytest.mark.parametrize(
    ("group_id", "epoch", "asked", "answered", "rows"),
    [
        ("classic", 0, True, (69, "not a share group", 0), 0),
        ("orders", 0, True, (0, None, 1), 1),
        ("classic", 1, False, (0, None, 1), 1),  # the job knows whether it has such a member
        ("classic", -1, False, (0, None, 1), 1),
    ],
)
def test_a_group_of_another_kind_is_not_joined(
    group_id: str, epoch: int, asked: bool, answered: tuple[int, str | None, int], rows: int
) -> None:
    job, groups, upstream = Job(), NotShareGroups(), ScriptedUpstream()
    handler: Any = ShareGroupHeartbeat
    message = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, rack_id=None, subscribed_topic_names=["t"]
    )
    heartbeat = handler(job, upstream, EVERYTHING_ALLOWED, MemberLeases(), groups)
    found = answer(heartbeat, message, ShareGroupHeartbeatResponse, version=1)
    assert (found.error_code, found.error_message, found.member_epoch) == answered
    assert groups.asked == ([(ALICE.node_id, group_id)] if asked else [])
    assert len(job.rows) == rows
