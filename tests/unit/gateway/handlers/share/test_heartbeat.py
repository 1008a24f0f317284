"""ShareGroupHeartbeat: requests to the job, leases, static members, and groups of another type."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.job_client.job_channel import JobLoadingError
from sharegroup.gateway.sessions.member_identities import Identity
from sharegroup.protocol.rows.share_group_requests import HEARTBEAT
from sharegroup.protocol.share_session import SessionKey
from sharegroup.protocol.topic_ids import topic_id_text
from tests.unit.gateway.conversation import NODE, ORDERS, Client, Job, ShareGateway, heartbeat

RECREATED = UUID(int=9)
#: The client id of all requests.
CLIENT_ID = "client"
PROCESS = SessionKey("g", "m")


def outcome(response: Any) -> tuple[int, str | None, int]:
    return response.error_code, response.error_message, response.member_epoch


def test_heartbeat_cannot_join_a_group_of_another_type(gateway: ShareGateway, client: Client, job: Job) -> None:
    client.send(heartbeat(0, ["orders"], "classic"))
    assert outcome(client.receive()) == (ErrorCode.GROUP_ID_NOT_FOUND, "not a share group", 0)
    assert gateway.looked_up == [(NODE, "classic")]
    assert job.unread() == []


@pytest.mark.parametrize(
    ("group_id", "epoch", "is_looked_up"), [("orders", 0, True), ("classic", 1, False), ("classic", -1, False)]
)
def test_job_decides_about_members_of_a_group(
    gateway: ShareGateway, client: Client, job: Job, group_id: str, epoch: int, is_looked_up: bool
) -> None:
    client.send(heartbeat(epoch, ["orders"], group_id))
    job.answer(job.receive(HEARTBEAT), member_epoch=1)
    assert outcome(client.receive()) == (0, None, 1)
    assert gateway.looked_up == ([(NODE, group_id)] if is_looked_up else [])


@pytest.mark.parametrize(
    ("epoch", "names", "is_looked_up"),
    [(0, ["orders"], True), (1, ["orders"], False), (1, None, False), (1, ["bills"], True)],
)
def test_topics_are_looked_up_for_a_new_subscription(
    gateway: ShareGateway, client: Client, job: Job, epoch: int, names: list[str] | None, is_looked_up: bool
) -> None:
    client.send(heartbeat(0, ["orders"]))
    job.answer(job.receive(HEARTBEAT), member_epoch=1, subscribed_topic_names=("orders",))
    client.receive()
    gateway.cluster.there = {"orders": (RECREATED, NODE), "bills": (RECREATED, NODE)}
    gateway.loop.call(gateway.cluster.expire_seen_topics)
    client.send(heartbeat(epoch, names))
    (topic,) = job.receive(HEARTBEAT).topics.values()
    assert topic.topic_id == topic_id_text(RECREATED if is_looked_up else ORDERS)


def test_heartbeat_gets_a_retriable_error_while_the_job_loads(client: Client, job: Job) -> None:
    client.send(heartbeat(1))
    job.fail(job.receive(HEARTBEAT), JobLoadingError("the job is still loading"))
    assert client.receive().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(("is_durable", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.COORDINATOR_NOT_AVAILABLE)])
def test_a_leave_fails_if_it_is_not_durable_in_time(
    client: Client, job: Job, monkeypatch: pytest.MonkeyPatch, is_durable: bool, code: ErrorCode
) -> None:
    monkeypatch.setattr("sharegroup.gateway.handlers.share.heartbeat.DURABLE_S", 0)
    client.send(heartbeat(0))
    job.answer(job.receive(HEARTBEAT), member_epoch=1, session_deadline_ms=100)
    client.receive()
    job.is_durable = is_durable
    client.send(heartbeat(-1))
    assert client.receive().error_code == code
    assert job.receive(HEARTBEAT).member_epoch == -1


def test_at_most_one_heartbeat_of_a_member_waits_for_a_broker(
    gateway: ShareGateway, client: Client, job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets an error in time, and its next heartbeats append and log nothing while no broker responds."""
    monkeypatch.setattr("sharegroup.gateway.handlers.share.heartbeat.DURABLE_S", 0)
    job.is_durable = False
    client.send(heartbeat(1))
    assert client.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    job.receive(HEARTBEAT)
    client.send(heartbeat(1))
    assert client.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert job.unread() == []

    job.is_durable = True
    earlier = job.not_durable
    assert earlier is not None
    gateway.loop.call(lambda: earlier.set_result(0))
    client.send(heartbeat(1))
    job.answer(job.receive(HEARTBEAT), member_epoch=1)
    assert outcome(client.receive()) == (0, None, 1)
    assert not caplog.messages


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_leave_does_not_wait_for_an_earlier_heartbeat(client: Client, job: Job, epoch: int) -> None:
    job.is_durable = False
    client.send(heartbeat(1))
    client.receive()
    job.receive(HEARTBEAT)
    client.send(heartbeat(epoch))
    assert job.receive(HEARTBEAT).member_epoch == epoch
    assert client.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- static members ----------------------------------------------------------------------------------------------------


def names_in(row: Any) -> tuple[str, str | None, str | None]:
    return row.member_id, row.group_instance_id, row.incarnation_id


def test_client_id_is_not_an_instance_id_by_default(gateway: ShareGateway, client: Client, job: Job) -> None:
    client.send(heartbeat(0))
    row = job.receive(HEARTBEAT)
    assert names_in(row) == ("m", None, None)
    job.answer(row, member_epoch=3, session_deadline_ms=100)
    assert client.receive().member_id == "m"
    assert gateway.leases.get(*PROCESS).is_valid_at(0)
    assert gateway.identities.get(PROCESS) == Identity("m")


def test_client_id_is_the_instance_id_of_a_configured_group(gateway: ShareGateway, client: Client, job: Job) -> None:
    gateway.alter_group(client_id_as_instance_id=True)
    for epoch in (0, 3):
        client.send(heartbeat(epoch))
        row = job.receive(HEARTBEAT)
        assert names_in(row) == ("", CLIENT_ID, "m")
        job.answer(row, member_id="stored", member_epoch=3, session_deadline_ms=100)
        assert client.receive().member_id == "m"  # the client continues with its own id
        assert gateway.identities.get(PROCESS) == Identity("stored", "m")
    assert not gateway.leases.get(*PROCESS).is_valid_at(0)  # another process may replace it at any time


@pytest.mark.parametrize(("epoch", "code"), [(-1, ErrorCode.NONE), (3, ErrorCode.FENCED_INSTANCE_ID)])
def test_process_that_is_no_longer_a_member_is_removed(
    gateway: ShareGateway, client: Client, job: Job, epoch: int, code: ErrorCode
) -> None:
    gateway.alter_group(client_id_as_instance_id=True)
    client.send(heartbeat(0))
    job.answer(job.receive(HEARTBEAT), member_id="stored", member_epoch=3, session_deadline_ms=100)
    client.receive()
    client.send(heartbeat(epoch))
    row = job.receive(HEARTBEAT)
    assert names_in(row) == ("", CLIENT_ID, "m")
    job.answer(row, error_code=int(code), member_id="stored", member_epoch=epoch)
    response = client.receive()
    assert (response.member_id, response.error_code) == ("m", code)
    assert gateway.identities.get(PROCESS) == Identity("m")
