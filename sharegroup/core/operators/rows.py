"""The input rows of the operators.

Each row is one string, `kind TAB body`, because the cost of a row in Spark depends mostly on its number of columns. The
*source* is the custom source of the streaming query, which adds rows to those of the request topic:

kind        | body                                                        | from
config      | effective config of the group, a JSON object                | source
fences      | [[member id, incarnation id, joined_ms], ...]               | source
gone        | the name of the deleted topic, a JSON text                  | source
unload      | [partition, ...]                                            | source
delete      | [[partition, state_epoch, topic], ...]                      | source
load        | of a shard: [{...}, ...], see `ManagedPartition.load`;      | source
            | of a group: {table: [row, ...]}, see `table_records`        |
log         | [[partition, then the fields of `PartitionLog`], ...]       | source
request     | kafka partition TAB offset TAB timestamp_ms TAB value       | request topic
leases_over | [gateway, ...]                                              | source
tick        | clock_ms                                                    | source

Spark's shuffle does not preserve the order, so `sort_rows` sorts the rows of a batch. Rows of the source precede the
requests, except `leases_over` and `tick`, which come last. Requests that change the config precede all other requests.
Requests of one Kafka partition keep their order. Requests of several partitions are ordered by append time.
"""

from collections.abc import Iterable
from typing import NamedTuple

CONFIG = "config"
FENCES = "fences"
TOPIC_DELETED = "gone"
UNLOAD = "unload"
DELETE = "delete"
LOAD = "load"
LOG = "log"
REQUEST = "request"
LEASES_OVER = "leases_over"
TICK = "tick"

#: A text that occurs only in requests that change the config (`SharePartitionRequest.encode`).
_CONFIGURE = '"type":"configure"'
_KINDS = (CONFIG, FENCES, TOPIC_DELETED, UNLOAD, DELETE, LOAD, LOG, REQUEST, LEASES_OVER, TICK)
_ORDER = {kind: rank for rank, kind in enumerate(_KINDS)}


class RequestRow(NamedTuple):
    """A row of a request topic, with its partition and offset. `append_ms` is its LogAppendTime."""

    kafka_partition: int
    kafka_offset: int
    append_ms: int
    value: str


class InputRow(NamedTuple):
    """A decoded row of a micro-batch. `request` is set for the kind `request`, and `body` for all other kinds."""

    kind: str
    body: str
    request: RequestRow | None = None


def encode_row(kind: str, body: str) -> str:
    return f"{kind}\t{body}"


def decode_row(row: str) -> InputRow:
    """Decode one row. Raises ValueError for an unknown kind."""
    kind, body = row.split("\t", 1)
    if kind not in _ORDER:
        raise ValueError(f"unknown kind of row: {kind!r}")
    if kind != REQUEST:
        return InputRow(kind, body)
    partition, offset, append_ms, value = body.split("\t", 3)
    return InputRow(kind, "", RequestRow(int(partition), int(offset), int(append_ms), value))


def latest_ms(rows: Iterable[InputRow], now_ms: int) -> int:
    """Return the later of `now_ms` and the append time of the newest request."""
    return max([now_ms, *(row.request.append_ms for row in rows if row.request is not None)])


def sort_rows(rows: Iterable[str]) -> list[InputRow]:
    """Decode the rows of one key, and sort them into processing order. The order of `rows` has no effect."""
    decoded = [decode_row(row) for row in rows]
    appended = _append_times(row.request for row in decoded if row.request is not None)

    def rank(row: InputRow) -> tuple[int, bool, int, int, int, str]:
        request = row.request
        if request is None:
            return _ORDER[row.kind], False, 0, 0, 0, row.body
        partition, offset, *_ = request
        is_later = _CONFIGURE not in request.value
        return _ORDER[row.kind], is_later, appended[partition, offset], partition, offset, ""

    return sorted(decoded, key=rank)


def _append_times(requests: Iterable[RequestRow]) -> dict[tuple[int, int], int]:
    """Return the append time of each request by (Kafka partition, offset). Within a partition, times never decrease.

    The clock of a new partition leader may be behind, but the order of the requests within a partition must be kept. A
    time that is lower than an earlier one in the partition is therefore replaced by the earlier time.
    """
    found: dict[tuple[int, int], int] = {}
    latest: dict[int, int] = {}
    for request in sorted(requests):
        partition = request.kafka_partition
        latest[partition] = max(latest.get(partition, 0), request.append_ms)
        found[partition, request.kafka_offset] = latest[partition]
    return found
