"""The row of `__share_partition_requests` with which a gateway renews its lease. Data and checks only.

The gateway holds its reserved offsets until the end of its lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sharegroup.errors import InvalidRequestRow
from sharegroup.protocol.json_text import to_json
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS
from sharegroup.protocol.rows.row_fields import InvalidFieldError, check_header, integer, json_object, row_values, text

RENEW_LEASES = "renew_leases"


@dataclass(frozen=True, slots=True)
class RenewLeasesRequest:
    """Request to keep all reservations of the gateway `requester` for `lease_ms` ms after the append of the row.

    `group_id` may be any group that the job serves. It only determines to which cell's job the row is sent.
    """

    type: ClassVar[str] = RENEW_LEASES

    id: str
    group_id: str
    requester: str
    lease_ms: int

    def encode(self) -> bytes:
        """Return the record value, a JSON object."""
        return to_json(row_values(self)).encode()

    @property
    def kafka_key(self) -> bytes:
        """The record key, `requester`. All renewals of a gateway are therefore in one Kafka partition."""
        return self.requester.encode()


def decode_renewal(value: str) -> RenewLeasesRequest | None:
    """Decode a row. Returns None if it is not a valid `renew_leases` row."""
    try:
        row = check_header(json_object(value), (RENEW_LEASES,))
        lease_ms = integer(row, "lease_ms", 1, MAX_LEASE_MS)
        return RenewLeasesRequest(row["id"], text(row, "group_id"), text(row, "requester"), lease_ms)
    except (InvalidFieldError, InvalidRequestRow):
        return None
