"""The times until which members are known to be in their groups, as heartbeats pass through the gateway."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharegroup.config import Config
from sharegroup.errors import ErrorCode
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.handlers.share import heartbeat
from sharegroup.gateway.handlers.share.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.sessions import member_leases
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.share_session import SessionKey
from sharegroup.security.caller import Caller
from tests.unit.gateway.recording_job import RecordingJob
from tests.unit.gateway.scripted_upstream import NoOtherGroups, ScriptedUpstream

FENCED_MEMBER_EPOCH = 110


def test_a_lease_lasts_until_its_deadline() -> None:
    lease = MemberLeases().get_or_create("g", "m")
    assert not lease.is_valid_at(0)
    lease.extend(100)
    assert (lease.is_valid_at(99), lease.is_valid_at(100)) == (True, False)
    lease.extend(50)
    assert not lease.is_valid_at(50)


def test_ended_lease_stays_ended_and_a_new_one_may_begin() -> None:
    leases = MemberLeases()
    old = leases.get_or_create("g", "m")
    assert leases.get_or_create("g", "m") is leases.get("g", "m") is old
    leases.end("g", "m")
    old.extend(100)
    assert not old.is_valid_at(0)
    leases.get_or_create("g", "m").extend(200)
    assert leases.get("g", "m").is_valid_at(100)
    assert not leases.get("g", "another").is_valid_at(0)


def test_number_of_leases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_leases, "MAX_KEPT", 2)
    leases = MemberLeases()
    held = [leases.get_or_create("g", name) for name in ("a", "b", "a", "c")]
    for lease in held:
        lease.extend(100)
    assert [lease.is_valid_at(0) for lease in held] == [True, False, True, True]
    assert not leases.get("g", "b").is_valid_at(0)


class Heartbeats:
    """The handler, with scripted responses of the job."""

    def __init__(self) -> None:
        self.job, self.leases = RecordingJob(), MemberLeases()
        security = SimpleNamespace(authorize_heartbeat=lambda *_: None)
        cluster: Any = ScriptedUpstream()
        groups: Any = NoOtherGroups()
        configs: Any = SimpleNamespace(group_config=Config().group_config)
        identities = MemberIdentities(configs)
        self.acknowledgements, self.open_leaves = OpenAcknowledgements(), OpenLeaves()
        self._handler = ShareGroupHeartbeat(
            cast(Any, self.job),
            cluster,
            security,
            self.leases,
            groups,
            identities,
            self.acknowledgements,
            self.open_leaves,
        )

    def start(self, member_epoch: int) -> asyncio.Future[Any]:
        body = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=member_epoch, rack_id=None, subscribed_topic_names=None
        )
        header: Any = SimpleNamespace(client_id="client")
        return asyncio.ensure_future(self._handler(Request(header, body, Caller(1, 1, "127.0.0.1"))))

    async def send(self, member_epoch: int) -> asyncio.Future[Any]:
        count = len(self.job.rows)
        sent = self.start(member_epoch)
        while len(self.job.rows) == count:
            await asyncio.sleep(0)
        return sent

    async def answer(self, number: int, sent: asyncio.Future[Any], **fields: Any) -> None:
        """Return the job's response to one of the heartbeats that were sent."""
        row = self.job.rows[number]
        answer = HeartbeatResponse(row.id, row.reply_to, "g", member_id="m", **fields)
        if row.id in self.job.answers:
            self.job.answers[row.id].set_result(answer)
        else:
            self.job.respond(answer)
        await sent

    def lasts(self, until_ms: int) -> bool:
        return self.leases.get("g", "m").is_valid_at(until_ms)


def test_each_heartbeat_response_extends_the_lease() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        assert (heartbeats.lasts(99), heartbeats.lasts(100)) == (True, False)
        await heartbeats.answer(1, await heartbeats.send(1), member_epoch=1, session_deadline_ms=200)
        assert heartbeats.lasts(199)
        await heartbeats.answer(2, await heartbeats.send(1), member_epoch=1)  # a job that sends no deadline
        assert not heartbeats.lasts(0)

    asyncio.run(test())


def test_leave_ends_the_lease_permanently_before_its_row_is_sent() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        late = await heartbeats.send(1)
        left = await heartbeats.send(-1)
        assert not heartbeats.lasts(0)
        await heartbeats.answer(1, late, member_epoch=1, session_deadline_ms=200)
        assert not heartbeats.lasts(0)
        await heartbeats.answer(2, left, member_epoch=-1)
        await heartbeats.answer(3, await heartbeats.send(0), member_epoch=2, session_deadline_ms=300)
        assert heartbeats.lasts(299)

    asyncio.run(test())


def test_certain_leave_is_answered_before_the_job_and_descriptions_wait() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        left = await (await heartbeats.send(-1))
        assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -1)
        of_group, of_all = (asyncio.ensure_future(heartbeats.open_leaves.wait(names)) for names in (["g"], None))
        await heartbeats.open_leaves.wait(["another"])
        assert not of_group.done()
        assert not of_all.done()
        await heartbeats.answer(1, asyncio.ensure_future(asyncio.sleep(0)), member_epoch=-1)
        await asyncio.gather(of_group, of_all)
        await heartbeats.open_leaves.wait()

    asyncio.run(test())


def test_leave_that_cannot_be_appended_is_rejected() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        heartbeats.job.fail_next = True
        left = await (await heartbeats.send(-1))
        assert left.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await heartbeats.open_leaves.wait()

    asyncio.run(test())


def test_leave_of_a_possibly_removed_member_is_answered_by_the_job() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        heartbeats.job.time_ms = 100
        left = await heartbeats.send(-1)
        assert not left.done()
        await heartbeats.answer(1, left, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        assert (await left).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    asyncio.run(test())


def test_descriptions_wait_for_a_leave_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LEAVE_PATIENCE_S", 0.01)

    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        await (await heartbeats.send(-1))
        await heartbeats.open_leaves.wait()

    asyncio.run(test())


def test_rejected_heartbeat_ends_the_lease() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        await heartbeats.answer(1, await heartbeats.send(1), error_code=FENCED_MEMBER_EPOCH)
        assert not heartbeats.lasts(0)

    asyncio.run(test())


def test_leave_waits_for_acknowledgements_that_were_sent_before() -> None:
    async def test() -> None:
        heartbeats = Heartbeats()
        await heartbeats.answer(0, await heartbeats.send(0), member_epoch=1, session_deadline_ms=100)
        outcome = asyncio.get_running_loop().create_future()
        heartbeats.acknowledgements.add(SessionKey("g", "m"), [outcome])
        left = heartbeats.start(-1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert heartbeats.lasts(99)
        assert len(heartbeats.job.rows) == 1
        outcome.set_result((0, None))
        while len(heartbeats.job.rows) == 1:
            await asyncio.sleep(0)
        assert not heartbeats.lasts(0)
        await heartbeats.answer(1, left, member_epoch=-1)

    asyncio.run(test())
