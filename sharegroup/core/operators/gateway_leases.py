"""The leases of gateways: the time until which a gateway holds its reserved offsets.

A gateway renews its lease with one row for all share-partitions. The job does not pass the renewal on to each
share-partition, because that would cost as much as one row per share-partition::

    renew_leases row  ->  `GatewayLeases`  ->  `Output.leases`     ->  driver  ->  source of the streaming query
    reserve row       ->  its shard        ->  `Output.reservers`  ->  driver  ->  source of the streaming query

The source of the streaming query stores which gateways hold reservations in each shard (several share-partitions that
are processed together), and when the leases end. When a lease has ended, the source waits until all rows that were
appended before the end have been read. It then sends a `leases_over` row to the shards in which the gateway holds
reservations. An assignment that was appended within the lease therefore always takes effect.

A lease starts with the append of its renewal, so the gateway can compute the lease's end without a response. A granted
reservation also extends the lease. The source does not store leases durably. After a restart, it assumes that each
gateway has just renewed its lease.
"""

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.rejected_requests import UnkeyedRequests
from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.rows.lease_requests import decode_renewal


class GatewayLeases(UnkeyedRequests):
    """The operator that extends the leases of gateways. A renewal is a request row that names no share-partition.

    All other request rows that name no share-partition are rejected.
    """

    def _refuse(self, request: RequestRow, output: Output) -> None:
        renewal = decode_renewal(request.value)
        if renewal is None:
            super()._refuse(request, output)
        else:
            output.extend_lease(renewal.requester, request.append_ms + renewal.lease_ms)
