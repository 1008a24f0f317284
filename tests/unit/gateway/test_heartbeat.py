"""ShareGroupHeartbeat: a member that would join a group of another kind is refused, as by Kafka's coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.heartbeat import ShareGroupHeartbeat
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.protocol.response_rows import ShareGroupResponse
from tests.unit.gateway.scripted_upstream import EVERYTHING_ALLOWED, FixedTables, ScriptedUpstream, answer

JOINED = (int(ErrorCode.NONE), 1)
REFUSED = (int(ErrorCode.GROUP_ID_NOT_FOUND), 0)


class Engine:
    """A group coordinator to which every heartbeat is welcome."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def new_id(self) -> str:
        return "1"

    async def ask(self, row: Any) -> ShareGroupResponse:
        self.rows.append(row)
        return ShareGroupResponse("heartbeat", "1", "gateway", row.group_id, row.member_id, member_epoch=1)


class OtherKinds:
    """The groups upstream, by kind."""

    def __init__(self, kinds: dict[str, str]) -> None:
        self._kinds = kinds
        self.asked: list[str] = []

    async def other_kind(self, node_id: int, group_id: str) -> str | None:
        self.asked.append(group_id)
        return self._kinds.get(group_id)


def heartbeat(
    group_id: str, epoch: int, upstream: OtherKinds, tables: FixedTables | None = None
) -> tuple[tuple[int, int], int]:
    """(error code, member epoch) of the answer, and how many rows went to the job."""
    engine = Engine()
    handler = ShareGroupHeartbeat(
        engine, ScriptedUpstream(), EVERYTHING_ALLOWED, tables or FixedTables(), upstream  # type: ignore[arg-type]
    )  # fmt: skip
    asked = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, rack_id=None, subscribed_topic_names=["t"]
    )
    found = answer(handler, asked, ShareGroupHeartbeatResponse, version=1)
    return (found.error_code, found.member_epoch), len(engine.rows)


@pytest.mark.parametrize("kind", ["classic", "consumer", "streams"])
def test_a_group_of_another_kind_is_refused_and_the_job_hears_nothing(kind: str) -> None:
    assert heartbeat("g", 0, OtherKinds({"g": kind})) == (REFUSED, 0)


def test_a_group_that_upstream_does_not_know_is_joined() -> None:
    upstream = OtherKinds({"other": "classic"})
    assert heartbeat("g", 0, upstream) == (JOINED, 1)
    assert upstream.asked == ["g"]


@pytest.mark.parametrize("epoch", [1, 7, -1])
def test_only_who_joins_is_asked_about(epoch: int) -> None:
    upstream = OtherKinds({"g": "classic"})
    assert heartbeat("g", epoch, upstream) == (JOINED, 1)
    assert upstream.asked == []


def test_a_share_group_that_is_ours_stays_one() -> None:
    assert heartbeat("g", 0, OtherKinds({"g": "classic"}), FixedTables(groups={"g": "Stable"})) == (JOINED, 1)


def test_where_nobody_can_say_whose_the_group_is_the_member_tries_again() -> None:
    unreadable = FixedTables(error=RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no tables"))
    code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert heartbeat("g", 0, OtherKinds({"g": "classic"}), unreadable) == ((code, 0), 0)
    assert heartbeat("g", 0, OtherKinds({}), unreadable) == (JOINED, 1)
