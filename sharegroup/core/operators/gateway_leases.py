"""The leases of gateways: until when each one holds what it has reserved.

A gateway renews its lease with one row, however many share-partitions it has reserved offsets of. If each of them had
to read the renewal, it would cost as much as one row for each. Therefore a renewal is not sent to share-partitions::

    renew_leases row  ->  `GatewayLeases`  ->  `Output.leases`     ->  driver  ->  handover to the source
    reserve row       ->  its shard        ->  `Output.reservers`  ->  driver  ->  handover to the source

The source stores which gateways hold reservations at each shard, and when their leases end. When a lease has ended, and
all rows that were appended before its end have been read, the source sends a `leases_over` row to the shards of the
gateway. So an assignment that was appended within the lease always takes effect.

A lease runs from the append of its renewal, so the gateway can compute its end without a response. A reservation that
is granted extends the lease, too. After a restart the source has no leases. It then assumes that each gateway has just
renewed its lease.
"""

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.rejected_requests import UnkeyedRequests
from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.rows.lease_requests import decode_renewal


class GatewayLeases(UnkeyedRequests):
    """The operator of the rows that name no share-partition. It extends gateway leases, and rejects all other rows."""

    def _refuse(self, request: RequestRow, output: Output) -> None:
        renewal = decode_renewal(request.value)
        if renewal is None:
            super()._refuse(request, output)
        else:
            output.extend_lease(renewal.requester, request.append_ms + renewal.lease_ms)
