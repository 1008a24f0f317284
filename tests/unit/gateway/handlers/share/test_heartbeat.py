"""ShareGroupHeartbeat: requests to the job, leases, static members, and groups of another type."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.handlers.share.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.job_client.job_channel import JobLoadingError
from sharegroup.gateway.sessions.member_identities import Identity, MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.share_session import SessionKey
from sharegroup.protocol.topic_ids import topic_id_text
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.scripted_upstream import ALICE, EVERYTHING_ALLOWED, ScriptedUpstream, answer


class Job:
    """A group coordinator that accepts every heartbeat."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def new_id(self) -> str:
        return "1"

    def now_ms(self) -> int:
        return 0

    async def ask(self, row: Any) -> HeartbeatResponse:
        self.rows.append(row)
        return HeartbeatResponse("1", "gateway", row.group_id, member_id=row.member_id, member_epoch=1)


def Configs(**values: object) -> Any:  # noqa: N802
    """Return configs that apply to any group."""
    config = dataclasses.replace(Config().group_config("g"), **cast(Any, values))
    return SimpleNamespace(group_config=lambda _: config)


class NotShareGroups:
    """Upstream groups in which only `classic` is not a share group."""

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
        ("classic", 1, False, (0, None, 1), 1),  # the job decides whether it has such a member
        ("classic", -1, False, (0, None, 1), 1),
    ],
)
def test_heartbeat_cannot_join_a_group_of_another_type(
    group_id: str, epoch: int, asked: bool, answered: tuple[int, str | None, int], rows: int
) -> None:
    job, groups, upstream = Job(), NotShareGroups(), ScriptedUpstream()
    handler: Any = ShareGroupHeartbeat
    message = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, rack_id=None, subscribed_topic_names=["t"]
    )
    identities = MemberIdentities(Configs())
    heartbeat = handler(
        job,
        upstream,
        EVERYTHING_ALLOWED,
        MemberLeases(),
        groups,
        identities,
        OpenAcknowledgements(),
        OpenLeaves(),
    )
    found = answer(heartbeat, message, ShareGroupHeartbeatResponse, version=1)
    assert (found.error_code, found.error_message, found.member_epoch) == answered
    assert groups.asked == ([(ALICE.node_id, group_id)] if asked else [])
    assert len(job.rows) == rows


class Subscribed(Job):
    """A group coordinator that tells the subscription."""

    async def ask(self, row: Any) -> HeartbeatResponse:
        answer = await super().ask(row)
        return dataclasses.replace(answer, subscribed_topic_names=row.subscribed_topic_names or ("foo",))


def request(message: ShareGroupHeartbeatRequest) -> Any:
    """The message as it comes from Alice."""
    return Request(cast(Any, SimpleNamespace(client_id="c", api_version=1)), message, ALICE)


@pytest.mark.parametrize(
    ("epoch", "names", "is_looked_up"), [(0, ["foo"], True), (1, ["foo"], False), (1, None, False), (1, ["bar"], True)]
)
def test_topics_are_looked_up_for_a_new_subscription(epoch: int, names: list[str] | None, is_looked_up: bool) -> None:
    old, new = UUID(int=1), UUID(int=2)

    async def heartbeats() -> None:
        job, cluster, handler = Subscribed(), KnownCluster(foo=(old, 1), bar=(old, 1)), cast(Any, ShareGroupHeartbeat)
        parts = (MemberLeases(), NotShareGroups(), MemberIdentities(Configs()), OpenAcknowledgements(), OpenLeaves())
        heartbeat = handler(job, cluster, EVERYTHING_ALLOWED, *parts)
        message = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["foo"]
        )
        await heartbeat(request(message))
        cluster.there = {"foo": (new, 1), "bar": (new, 1)}  # deleted and made again
        cluster.expire_seen_topics()
        message = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=names
        )
        await heartbeat(request(message))
        (topic,) = job.rows[-1].topics.values()
        assert topic.topic_id == topic_id_text(new if is_looked_up else old)

    asyncio.run(heartbeats())


def test_heartbeat_gets_a_retriable_error_while_the_job_loads() -> None:
    class Loading(Job):
        async def ask(self, row: Any) -> HeartbeatResponse:
            raise JobLoadingError("the job is still loading")

    handler: Any = ShareGroupHeartbeat
    parts = (MemberLeases(), NotShareGroups(), MemberIdentities(Configs()), OpenAcknowledgements(), OpenLeaves())
    heartbeat = handler(Loading(), ScriptedUpstream(), EVERYTHING_ALLOWED, *parts)
    message = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1, subscribed_topic_names=None)
    found = answer(heartbeat, message, ShareGroupHeartbeatResponse, version=1)
    assert found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Named(Job):
    """A group coordinator that stores the member id `stored` for each name; `code` is the error it returns."""

    code = ErrorCode.NONE

    async def ask(self, row: Any) -> HeartbeatResponse:
        self.rows.append(row)
        member_id = row.member_id if row.group_instance_id is None else "stored"
        return HeartbeatResponse(
            "1", "gateway", row.group_id, int(self.code), None, member_id=member_id, member_epoch=row.member_epoch or 3,
            session_deadline_ms=10**15,
        )  # fmt: skip


class Gateway:
    """The handler, with the process m of a client."""

    def __init__(self, **values: object) -> None:
        self.job, self.leases, self.identities = Named(), MemberLeases(), MemberIdentities(Configs(**values))
        handler: Any = ShareGroupHeartbeat
        self._heartbeat = handler(
            self.job,
            ScriptedUpstream(),
            EVERYTHING_ALLOWED,
            self.leases,
            NotShareGroups(),
            self.identities,
            OpenAcknowledgements(),
            OpenLeaves(),
        )

    def send(self, epoch: int) -> ShareGroupHeartbeatResponse:
        message = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=epoch, rack_id=None, subscribed_topic_names=["t"]
        )
        return answer(self._heartbeat, message, ShareGroupHeartbeatResponse, version=1)

    def row(self) -> tuple[str, str | None, str | None]:
        """Return (member id, group instance id, incarnation id) of the last row."""
        row = self.job.rows[-1]
        return row.member_id, row.group_instance_id, row.incarnation_id


#: The client id of requests that `answer` sends.
CLIENT_ID = "client"
PROCESS = SessionKey("g", "m")


def test_client_id_is_not_an_instance_id_by_default() -> None:
    gateway = Gateway()
    assert gateway.send(0).member_id == "m"
    assert gateway.row() == ("m", None, None)
    assert gateway.leases.get(*PROCESS).is_valid_at(0)
    assert gateway.identities.get(PROCESS) == Identity("m")


def test_client_id_is_the_instance_id_of_a_configured_group() -> None:
    gateway = Gateway(client_id_as_instance_id=True)
    for epoch in (0, 3):
        assert gateway.send(epoch).member_id == "m"  # the client continues with its own id
        assert gateway.row() == ("", CLIENT_ID, "m")
        assert gateway.identities.get(PROCESS) == Identity("stored", "m")
    assert not gateway.leases.get(*PROCESS).is_valid_at(0)  # another process may replace it at any time


@pytest.mark.parametrize(("epoch", "code"), [(-1, ErrorCode.NONE), (3, ErrorCode.FENCED_INSTANCE_ID)])
def test_process_that_is_no_longer_a_member_is_removed(epoch: int, code: ErrorCode) -> None:
    gateway = Gateway(client_id_as_instance_id=True)
    gateway.send(0)
    gateway.job.code = code
    found = gateway.send(epoch)
    assert (found.member_id, found.error_code) == ("m", code)
    assert gateway.row() == ("", CLIENT_ID, "m")
    assert gateway.identities.get(PROCESS) == Identity("m")
