"""The operators' input rows: one string each, `kind TAB body`, because per-column work dominates a narrow batch.

kind      | body                                                    | from
config    | effective config of the group, a JSON object            | source
fences    | [[member id, process, joined_ms], ...]                  | source
gone      | the name of the topic, which is no more, a JSON text     | source
unload    | [partition, ...]                                        | source
delete    | [[partition, state_epoch, topic], ...]                  | source
load      | [{...}, ...], see `LedPartition.load`; the group's rows | source
log       | [[partition, then the fields of `LogOffsets`], ...]     | source
request   | kafka partition TAB offset TAB timestamp_ms TAB value   | request topic
tick      | clock_ms                                                | source

Spark's shuffle keeps no order, so `in_order` sorts the rows of a batch: what the source says comes before the requests,
requests are in the order of their Kafka partition, those of several partitions in the order of their appends, those
that change the config in front, and the tick comes last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CONFIG = "config"
FENCES = "fences"
GONE = "gone"
UNLOAD = "unload"
DELETE = "delete"
LOAD = "load"
LOG = "log"
REQUEST = "request"
TICK = "tick"

#: In the value of a request that changes the config (`SharePartitionRequest.encode`).
_CONFIGURE = '"type":"configure"'
_ORDER = {kind: rank for rank, kind in enumerate((CONFIG, FENCES, GONE, UNLOAD, DELETE, LOAD, LOG, REQUEST, TICK))}


class RequestRow(NamedTuple):
    """A row of a request topic with its Kafka coordinates; `append_ms` is its timestamp there (LogAppendTime)."""

    kafka_partition: int
    kafka_offset: int
    append_ms: int
    value: str


class InputRow(NamedTuple):
    """A row of a micro-batch: `request` is set for the kind request, `body` for the others."""

    kind: str
    body: str
    request: RequestRow | None = None


def encode(kind: str, body: str) -> str:
    """A row of the source."""
    return f"{kind}\t{body}"


def decode(row: str) -> InputRow:
    """Read one row; raises ValueError for a kind that no version of this project wrote."""
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


def in_order(rows: Iterable[str]) -> list[InputRow]:
    """The rows of one key in the order in which the machine must see them; equal rows stay equal in every run."""
    decoded = [decode(row) for row in rows]
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
    """By (Kafka partition, offset): when a row was appended, not before those in front of it in its partition.

    The clock of another leader may be behind, and the order of a partition counts whatever its times are.
    """
    found: dict[tuple[int, int], int] = {}
    latest: dict[int, int] = {}
    for request in sorted(requests):
        partition = request.kafka_partition
        latest[partition] = max(latest.get(partition, 0), request.append_ms)
        found[partition, request.kafka_offset] = latest[partition]
    return found
