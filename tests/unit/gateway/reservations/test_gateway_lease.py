"""The lease of a gateway: when it is renewed, and what the time of an append does to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.reservations.gateway_lease import BUSY_LEASE_MS, LEASE_MARGIN_MS, LEASE_MS, GatewayLease
from tests.unit.gateway.recording_job import RecordingJob


class Gateway:
    """A lease, the rows that renew it, and the events that it reports."""

    def __init__(self) -> None:
        self.job, self.events = RecordingJob(), list[str]()
        begin, lapse = self._report("begin"), self._report("lapse")
        self.lease = GatewayLease(cast(JobChannel, self.job), begin, lapse)

    async def renew(self, append_ms: int | None, now_ms: int = 0) -> None:
        """Renew the lease with a row that is appended at this time; None: it cannot be appended."""
        self.job.append_ms = append_ms
        self.lease.renew("group", now_ms)
        await asyncio.sleep(0)

    def _report(self, event: str) -> Callable[[], None]:
        return lambda: self.events.append(event)


def test_lease_runs_from_the_append_of_its_row() -> None:
    async def main() -> None:
        gateway = Gateway()
        assert not gateway.lease.is_usable(0)
        await gateway.renew(100)
        assert (gateway.lease.end_ms, gateway.events) == (100 + LEASE_MS, ["begin"])
        assert gateway.lease.is_usable(100 + LEASE_MS - LEASE_MARGIN_MS - 1)
        assert not gateway.lease.is_usable(100 + LEASE_MS - LEASE_MARGIN_MS)

    asyncio.run(main())


def test_one_row_is_appended_when_half_of_the_lease_is_over() -> None:
    async def main() -> None:
        gateway = Gateway()
        await gateway.renew(0)
        await gateway.renew(1, now_ms=LEASE_MS // 2 - 1)
        assert len(gateway.job.rows) == 1
        gateway.job.append_ms = LEASE_MS // 2
        gateway.lease.renew("group", LEASE_MS // 2)
        await gateway.renew(LEASE_MS // 2, now_ms=LEASE_MS // 2)
        assert len(gateway.job.rows) == 2
        assert (gateway.lease.end_ms, gateway.events) == (LEASE_MS // 2 + LEASE_MS, ["begin"])

    asyncio.run(main())


@pytest.mark.parametrize("is_late", [False, True])
def test_renewal_appended_after_the_lease_begins_another_one(is_late: bool) -> None:
    async def main() -> None:
        gateway = Gateway()
        await gateway.renew(0)
        await gateway.renew(LEASE_MS + is_late, now_ms=LEASE_MS - 1)
        assert gateway.events == (["begin", "lapse", "begin"] if is_late else ["begin"])
        assert gateway.lease.end_ms == 2 * LEASE_MS + is_late

    asyncio.run(main())


def test_failed_renewal_is_repeated() -> None:
    async def main() -> None:
        gateway = Gateway()
        await gateway.renew(None)
        gateway.job.fail_next = True
        await gateway.renew(0)
        assert gateway.lease.end_ms == -1
        await gateway.renew(5)
        assert gateway.lease.end_ms == 5 + LEASE_MS

    asyncio.run(main())


def test_renewals_are_short_while_records_are_assigned() -> None:
    async def main() -> None:
        gateway = Gateway()
        await gateway.renew(0)
        gateway.lease.record_assignment(LEASE_MS - 2_000)
        await gateway.renew(0, now_ms=LEASE_MS - BUSY_LEASE_MS // 2 - 1)
        assert len(gateway.job.rows) == 1
        append_ms = LEASE_MS - BUSY_LEASE_MS // 2
        await gateway.renew(append_ms, now_ms=append_ms)
        assert gateway.lease.end_ms == append_ms + BUSY_LEASE_MS
        await gateway.renew(append_ms + BUSY_LEASE_MS, now_ms=append_ms + BUSY_LEASE_MS)
        assert [row.lease_ms for row in gateway.job.rows] == [LEASE_MS, BUSY_LEASE_MS, LEASE_MS]

    asyncio.run(main())


def test_short_renewal_does_not_end_a_lease_earlier() -> None:
    async def main() -> None:
        gateway = Gateway()
        gateway.lease.record_assignment(LEASE_MS)
        await gateway.renew(LEASE_MS)
        await gateway.renew(2, now_ms=LEASE_MS + BUSY_LEASE_MS // 2)
        assert gateway.lease.end_ms == LEASE_MS + BUSY_LEASE_MS

    asyncio.run(main())
