"""The lease of this gateway at one job, that is, the time until which the gateway's reservations are valid.

The gateway renews the lease with one row for all share-partitions in which it has reserved offsets. The lease runs from
the append of that row. The broker returns the time of the append, so the gateway needs no response from the job.

A row that is appended after the end of the lease does not extend it, because the job may have ended all reservations.
Such a row begins a new lease. Offsets that were reserved in the previous lease must then not be used.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS

#: Duration of a lease while no records are assigned. It is long because each renewal requires a micro-batch of the job.
LEASE_MS = MAX_LEASE_MS
#: Duration of a lease that is renewed while records are assigned. It is short, because the reserved records of a killed
#: gateway are not delivered until its lease ends. The assignments require micro-batches anyway.
BUSY_LEASE_MS = 2_000
#: The last part of a lease, in which no records are assigned. Rows that assign records must be appended before its end.
LEASE_MARGIN_MS = 500


class GatewayLease:
    """The lease of this gateway at one job. The job holds offsets reserved for the gateway until the lease ends.

    `on_begin` is called when a new lease has begun. If an earlier lease had ended, `on_lapse` is called first.
    """

    def __init__(self, job: JobChannel, on_begin: Callable[[], None], on_lapse: Callable[[], None]) -> None:
        self._job, self._on_begin, self._on_lapse = job, on_begin, on_lapse
        self._is_renewing = False
        self._busy_until_ms = 0
        #: When the lease ends, in ms since the epoch; -1 before the first lease. Rows that assign records must be
        #: appended by then.
        self.end_ms = -1

    def is_usable(self, now_ms: int) -> bool:
        """Return whether the lease lasts long enough to reserve and assign offsets now."""
        return now_ms + LEASE_MARGIN_MS < self.end_ms

    def record_assignment(self, now_ms: int) -> None:
        """Record that records are being assigned. For `BUSY_LEASE_MS` from now, `renew` requests only a short lease.

        With a short lease, other members soon receive the reserved records if this gateway is killed.
        """
        self._busy_until_ms = now_ms + BUSY_LEASE_MS

    def is_due(self, now_ms: int) -> bool:
        """Return whether `renew` would append a row.

        Two conditions must be true. No renewal is open. The remaining time of the lease is at most half of the duration
        that `renew` would request now.
        """
        return not self._is_renewing and now_ms >= self.end_ms - self._lease_ms(now_ms) // 2

    def _lease_ms(self, now_ms: int) -> int:
        return BUSY_LEASE_MS if now_ms < self._busy_until_ms else LEASE_MS

    def renew(self, group_id: str, now_ms: int) -> None:
        """Append a row that renews the lease if `is_due` returns True.

        `group_id` is the id of any group that the job serves. If the append fails, no error is raised, and the next
        call appends another row.
        """
        if not self.is_due(now_ms):
            return
        lease_ms = self._lease_ms(now_ms)
        row = RenewLeasesRequest(self._job.new_id(), group_id, self._job.reply_to, lease_ms)
        try:
            appended = self._job.append(row)
        except JobUnavailableError:
            return
        self._is_renewing = True
        appended.add_done_callback(functools.partial(self._on_appended, lease_ms))

    def _on_appended(self, lease_ms: int, appended: asyncio.Future[int]) -> None:
        self._is_renewing = False
        if appended.cancelled() or appended.exception() is not None:
            return  # the next `renew` appends another row
        append_ms, ended_ms = appended.result(), self.end_ms
        if append_ms <= ended_ms:
            self.end_ms = max(ended_ms, append_ms + lease_ms)
            return
        if ended_ms >= 0:
            self._on_lapse()
        self.end_ms = append_ms + lease_ms
        self._on_begin()
