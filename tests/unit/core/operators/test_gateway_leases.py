"""The operator of the rows that name no share-partition: renewals of leases, and rows that it rejects."""

from __future__ import annotations

from sharegroup.core.operators import rows
from sharegroup.core.operators.gateway_leases import GatewayLeases
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS


def line(value: str, offset: int, append_ms: int) -> str:
    return rows.encode_row(rows.REQUEST, f"0\t{offset}\t{append_ms}\t{value}")


def renewal(lease_ms: int, gateway: str = "gateway-1") -> str:
    return RenewLeasesRequest("r", "group", gateway, lease_ms).encode().decode()


def test_renewal_extends_the_lease_of_its_gateway_from_its_append() -> None:
    lines = [line(renewal(700), 0, 100), line(renewal(50), 1, 200), line(renewal(1, "gateway-2"), 2, 300)]
    output = GatewayLeases("").run(lines, 5_000)
    assert output.leases == {"gateway-1": 800, "gateway-2": 301}
    assert (output.rejected, output.responses, output.positions) == ([], [], {0: 3})


def test_other_rows_and_longer_leases_are_rejected() -> None:
    lines = [line(value, at, 0) for at, value in enumerate((renewal(MAX_LEASE_MS + 1), '{"id":"x"}', "?"))]
    output = GatewayLeases("").run(lines, 0)
    assert (output.leases, [offset for _, offset, _ in output.rejected]) == ({}, [0, 1, 2])
