"""What one key's run of a micro-batch yields: plain JSON, one row of the operator's output.

The driver merges the outputs of all keys and takes them through the commit steps (docs/commit_steps.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sharegroup.core.operators.rows import RequestRow
from sharegroup.protocol.json_text import from_json, to_json
from sharegroup.protocol.rows.broadcasts import Broadcast, broadcast_row
from sharegroup.protocol.rows.response_rows import Response, encode_response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.types import WaitsFor


@dataclass(slots=True)
class Output:
    """Effects of one key in one micro-batch.

    `tables` maps a table's name to its rows (JSON objects without the columns that the writer stamps); `responses` are
    response rows; `requests` are request rows for the other operator, as (key, value) texts; `rejected` are rows nobody
    can be answered for, as (kafka partition, offset, reason); `notes` are sentences for the job's log; `positions` is
    the next unread offset of each request partition this key saw rows of; `deadline_ms` is when this key wants a tick
    (None: never); `waiting` tells what demands that stand wait for, so that the source polls this topic's log often;
    `windows` are the values of `metrics.WindowSizes` of the share-partitions that were touched, where they are counted.
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
    waiting: WaitsFor = WaitsFor.NOTHING
    windows: list[list[Any]] = field(default_factory=list)

    def append(self, table: str, row: dict[str, Any]) -> None:
        """Add a row of `table`."""
        self.tables.setdefault(table, []).append(row)

    def respond(self, *responses: Response) -> None:
        """Tell who asked; nobody is told who gave no `reply_to`."""
        self.responses += [encode_response(response) for response in responses if response.reply_to]

    def tell(self, broadcast: Broadcast) -> None:
        """Tell all gateways and members."""
        self.responses.append(broadcast_row(broadcast))

    def send(self, request: ShareGroupRequest | SharePartitionRequest) -> None:
        """Send a request row to the other operator."""
        self.requests.append((request.kafka_key.decode(), request.encode().decode()))

    def reject(self, row: RequestRow, reason: str) -> None:
        """Say in the job's tables what was wrong with a row."""
        self.rejected.append((row.kafka_partition, row.kafka_offset, reason))

    def read(self, row: RequestRow) -> None:
        """Note that its request partition was read up to this row."""
        read_up_to = self.positions.get(row.kafka_partition, 0)
        self.positions[row.kafka_partition] = max(row.kafka_offset + 1, read_up_to)

    def encode(self) -> str:
        """The output row's body. (`asdict` copies every value: 100 ms at 1,000 share-partitions.)"""
        return to_json({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def decode(cls, body: str) -> Output:
        """The inverse of `encode`."""
        row = from_json(body)
        row["positions"] = {int(partition): offset for partition, offset in row["positions"].items()}
        return cls(**row)
