"""The effects of one key in a micro-batch. They are one row of the operator's output, encoded as JSON.

The Spark driver merges the outputs of all keys and applies them in the commit steps (docs/commit_steps.md).
"""

from dataclasses import dataclass, field
from typing import Any, Self

from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.json_text import from_json, to_json
from sharegroup.protocol.rows.broadcasts import Broadcast, to_row
from sharegroup.protocol.rows.response_rows import Response, encode_response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.types import WaitsFor


@dataclass(slots=True)
class Output:
    """The effects of one key in one micro-batch. Times are milliseconds since the epoch.

    Attributes:
        key: The grouping key of the operator.
        now_ms: The time of the micro-batch.
        tables: The new rows of each table, by table name (JSON objects without the columns that the writer adds).
        responses: Response rows.
        requests: Request rows for the operator of the other streaming query, as (key, value) texts.
        rejected: (Kafka partition, offset, reason) of request rows that are recorded as invalid.
        notes: Messages for the job's log.
        positions: The next unread offset, by partition of the request topic. Only partitions with rows for this key are
            included.
        deadline_ms: The time at which this key needs a tick, or None if it needs none.
        reservers: The gateways that hold reserved offsets in share-partitions of this key.
        leases: The earliest time at which the lease of a gateway can end, by gateway.
        waiting: What the waiting fetches of this key need (`WaitsFor`). Unless it is NOTHING, the source of the
            streaming query polls the topic's log often.
        windows: Values of `metrics.WindowSizes` for the changed share-partitions, if metrics are enabled.
    """

    key: str
    now_ms: int
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    responses: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    rejected: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    deadline_ms: int | None = None
    reservers: list[str] = field(default_factory=list)
    leases: dict[str, int] = field(default_factory=dict)
    waiting: WaitsFor = WaitsFor.NOTHING
    windows: list[list[Any]] = field(default_factory=list)

    def append_row(self, table: str, row: dict[str, Any]) -> None:
        self.tables.setdefault(table, []).append(row)

    def respond(self, *responses: Response) -> None:
        """Append the responses that have a `reply_to`. The others are dropped, because nobody reads them."""
        self.responses += [encode_response(response) for response in responses if response.reply_to]

    def broadcast(self, broadcast: Broadcast) -> None:
        """Append a broadcast to all gateways and members."""
        self.responses.append(to_row(broadcast))

    def send_request(self, request: ShareGroupRequest | SharePartitionRequest) -> None:
        """Append a request row for the operator of the other streaming query."""
        self.requests.append((request.kafka_key.decode(), request.encode().decode()))

    def record_invalid(self, row: RequestRow, reason: str) -> None:
        """Record in the job's tables why a row is invalid."""
        self.rejected.append((row.kafka_partition, row.kafka_offset, reason))

    def mark_read(self, row: RequestRow) -> None:
        """Record that the row and all earlier rows of its partition of the request topic have been read."""
        read_up_to = self.positions.get(row.kafka_partition, 0)
        self.positions[row.kafka_partition] = max(row.kafka_offset + 1, read_up_to)

    def extend_lease(self, gateway: str, end_ms: int) -> None:
        """Record that the lease of a gateway lasts at least until `end_ms`."""
        self.leases[gateway] = max(end_ms, self.leases.get(gateway, 0))

    def encode(self) -> str:
        """Return the JSON text of the output row.

        The method does not use `asdict`, because `asdict` copies every value and takes 100 ms at 1,000
        share-partitions.
        """
        return to_json({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def decode(cls, body: str) -> Self:
        row = from_json(body)
        row["positions"] = {int(partition): offset for partition, offset in row["positions"].items()}
        return cls(**row)
