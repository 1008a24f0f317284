"""The lease of this gateway at one job: until when it holds all that it has reserved.

The gateway renews it with one row, however many share-partitions it has reserved offsets of. The lease runs from the
append of the row, whose time the broker returns, so no response is needed.

A row that was appended after the end of the lease does not extend it: the job may have ended all reservations by then.
It begins another lease, and what was reserved in the earlier one must not be used.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS

#: Duration of a lease while nothing is assigned. Each renewal costs the job a micro-batch, which it makes anyway while
#: records are assigned.
LEASE_MS = MAX_LEASE_MS
#: Duration of a lease that is renewed while records are assigned. The next records are held back for this long if the
#: gateway is killed.
BUSY_LEASE_MS = 3_000
#: Records are not assigned in the last part of a lease, because the append must be within it.
LEASE_MARGIN_MS = 500


class GatewayLease:
    """The lease. `on_begin` is called when another lease has begun, and `on_lapse` before that if one had ended."""

    def __init__(self, job: JobChannel, on_begin: Callable[[], None], on_lapse: Callable[[], None]) -> None:
        self._job, self._on_begin, self._on_lapse = job, on_begin, on_lapse
        self._is_renewing = False
        self._busy_until_ms = 0
        #: The end of the lease in ms, -1 if there was none yet. An assignment must be appended until then.
        self.end_ms = -1

    def is_usable(self, now_ms: int) -> bool:
        """Return whether offsets can be reserved and assigned now."""
        return now_ms + LEASE_MARGIN_MS < self.end_ms

    def record_assignment(self, now_ms: int) -> None:
        """Record that records are assigned, so that the next renewals are short."""
        self._busy_until_ms = now_ms + BUSY_LEASE_MS

    def renew(self, group_id: str, now_ms: int) -> None:
        """Append a row if less than half of a lease is left; `group_id` is a group of the job."""
        lease_ms = BUSY_LEASE_MS if now_ms < self._busy_until_ms else LEASE_MS
        if self._is_renewing or now_ms < self.end_ms - lease_ms // 2:
            return
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
