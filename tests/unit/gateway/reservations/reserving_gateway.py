"""A gateway that reserves offsets. The test plays the job and the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from sharegroup.config import Config
from sharegroup.gateway.reservations.reserved_delivery import ReservedDelivery
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.member_sessions import MemberSessions
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.protocol.share_session import TopicIdPartition
from sharegroup.types import AcquiredRange
from tests.harness.event_loop import until
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.recording_job import KEY, TOPIC_ID, RecordingJob
from tests.unit.gateway.tail_broker import TailBroker

LOCK_MS, SESSION_MS = 30_000, 45_000
PLACE = TopicIdPartition(TOPIC_ID, 0)


class Gateway:
    """A gateway of the topic `orders`, with members whose fetches wait. The test plays the job and the broker."""

    def __init__(self) -> None:
        config = Config()
        self.job, self.broker = RecordingJob(), TailBroker()
        self.cluster = KnownCluster(orders=(TOPIC_ID, 1))
        self.group_config = config.group_config("group")
        configs: Any = SimpleNamespace(group_config=lambda _: self.group_config)
        self.leases = MemberLeases()
        job = cast(Any, self.job)
        self.sessions = MemberSessions(config, configs, job, self.cluster, self.leases, MemberIdentities(configs))
        self.delivery = ReservedDelivery(job, self.cluster, self.sessions, self.leases, configs, self.broker)
        self._connections = 0

    def member(self, member_id: str, wanted: int = 100, session_ms: int = SESSION_MS) -> MemberPartition:
        """Return a member of the group whose fetch waits."""
        self.leases.get_or_create("group", member_id).extend(self.job.time_ms + session_ms)
        self._connections += 1
        context = self.sessions.sessions_at(1).fetch_context(
            "group", member_id, 0, self._connections, [PLACE], [], False
        )
        part = self.sessions.get_member_partition(context.session, PLACE)
        self.wait(part, wanted)
        return part

    def wait(self, part: MemberPartition, wanted: int = 100) -> None:
        """Let a member fetch again."""
        part.read_ahead.begin_wait(self.job.time_ms)
        part.request_records(self.job.time_ms, wanted)

    def rows(self, kind: type[Any]) -> list[Any]:
        return [row for row in self.job.rows if isinstance(row, kind)]

    async def renew_lease(self, append_ms: int) -> None:
        """Renew the lease with a row that is appended at this time."""
        self.job.append_ms = append_ms
        self.delivery.upkeep()
        await asyncio.sleep(0)

    def respond(self, *ranges: tuple[int, int], end: int = 0, **values: Any) -> None:
        """Answer the last request to reserve."""
        row = self.rows(ReserveRequest)[-1]
        acquired = tuple(AcquiredRange(first, last, 0) for first, last in ranges)
        response = ReserveResponse(
            row.id, row.reply_to, *KEY, "", reservation_epoch=row.reservation_epoch, acquired=acquired,
            log_end_offset=end, record_lock_duration_ms=LOCK_MS, **values,
        )  # fmt: skip
        self.job.respond(response)

    async def deliver(self, base_offset: int, count: int) -> None:
        """Append records, and wait until they have been read and their assignments are done."""
        self.broker.append(TOPIC_ID, base_offset, count)
        await until(lambda: self.delivery._tails.offset(next(iter(self.delivery._by_log))) == base_offset + count)
        await until(lambda: not self.delivery._deliveries)

    async def deliver_nothing(self, base_offset: int, count: int) -> None:
        """Append records, and wait until their assignments are done, which end the reservation."""
        self.broker.append(TOPIC_ID, base_offset, count)
        await until(lambda: not self.delivery._by_log)

    def assigned(self) -> list[tuple[str, list[tuple[int, int]]]]:
        return [(row.member_id, [tuple(each) for each in row.ranges]) for row in self.rows(AssignRequest)]


def run(scenario: Callable[[Gateway], Awaitable[None]]) -> None:
    async def main() -> None:
        gateway = Gateway()
        gateway.delivery._own_lease("group").renew("group", 0)
        await asyncio.sleep(0)
        gateway.job.rows.clear()
        try:
            await scenario(gateway)
        finally:
            gateway.delivery.close()

    asyncio.run(main())


def held(part: MemberPartition) -> list[tuple[int, int, int]]:
    return [tuple(each) for each in part.read_ahead.ranges()]  # type: ignore[misc]
