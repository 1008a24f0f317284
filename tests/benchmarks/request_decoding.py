"""python -m tests.benchmarks.request_decoding: what decoding one ShareFetch costs, ours and others'.

`ours` ends with what the handlers work with; the others end with objects of their own. `by its schema` is the decoder
of all requests but these two. kio is no dependency: its column is filled where somebody has installed it.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch
from uuid import UUID

from rich.console import Console
from rich.table import Table

from sharegroup.gateway.wire import request_decoding
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections.headers import encode_request, read_header
from sharegroup.protocol.messages import ShareFetchRequest

_VERSION = 2
_REPEATS, _SECONDS = 9, 0.05
_TOPIC = ShareFetchRequest.FetchTopic
_PARTITION = _TOPIC.FetchPartition

#: {name: (partitions, batches of each, acknowledge types of each)}
SHAPES: Mapping[str, tuple[int, int, int]] = {
    "a poll: 4 partitions, a batch each": (4, 1, 1),
    "1,000 batches of one type": (1, 1_000, 1),
    "1,000 batches of a type for each of 3 records": (1, 1_000, 3),
    "100 partitions, 10 batches each": (100, 10, 1),
}


def frame_of(partitions: int, batches: int, types: int) -> memoryview:
    """A request without its length."""
    offsets = [(1_000_000 + types * number, 1_000_000 + types * (number + 1) - 1) for number in range(batches)]
    entries = [
        _PARTITION(
            partition_index=index,
            acknowledgement_batches=[
                _PARTITION.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[1] * types)
                for first, last in offsets
            ],
        )
        for index in range(partitions)
    ]
    topics = [_TOPIC(topic_id=UUID(int=7), partitions=entries)]
    body = ShareFetchRequest(
        version=_VERSION,
        group_id="group", member_id="0123456789abcdefghijkl", share_session_epoch=3, max_wait_ms=500, min_bytes=1,
        max_bytes=52_428_800, max_records=500, batch_size=500, share_acquire_mode=0, is_renew_ack=False,
        topics=topics, forgotten_topics_data=[],
    )  # fmt: skip
    return memoryview(bytes(encode_request(body, _VERSION, 7, "client")))[4:]


def decoders(frame: memoryview) -> dict[str, Callable[[], object]]:
    """{whose: decodes the frame}; the header is read by then."""
    header = read_header(frame)
    start = header.end + 1
    body = bytes(frame[start:])

    def by_schema() -> object:
        with patch.object(request_decoding, "_OWN", {}):
            return decode_request(ShareFetchRequest, header, frame)

    found: dict[str, Callable[[], object]] = {
        "ours": lambda: decode_request(ShareFetchRequest, header, frame),
        "by its schema": by_schema,
        "kafka-python": lambda: ShareFetchRequest.decode(body, version=_VERSION),
    }
    kio = _kio()
    if kio is not None:
        found["kio"] = lambda: kio(body, 0)
    return found


def _kio() -> Callable[[bytes, int], Any] | None:
    try:
        from kio.schema.share_fetch.v2.request import ShareFetchRequest as KioRequest
        from kio.serial import entity_reader
    except ImportError:
        return None
    reader: Callable[[bytes, int], Any] = entity_reader(KioRequest)
    return reader


def milliseconds(work: Callable[[], object]) -> float:
    """CPU time of one, the least of several rounds; the garbage collector runs as it does in a process."""
    work()
    best = float("inf")
    for _ in range(_REPEATS):
        gc.collect()
        count, begin = 0, time.process_time()
        while (used := time.process_time() - begin) < _SECONDS:
            work()
            count += 1
        best = min(best, used / count)
    return 1000 * best


def main() -> int:
    """Print the table."""
    rows = {name: {whose: milliseconds(work) for whose, work in decoders(frame_of(*shape)).items()}
            for name, shape in SHAPES.items()}  # fmt: skip
    columns = list(next(iter(rows.values())))
    table = Table("ms of CPU a ShareFetch", *columns)
    for name, found in rows.items():
        table.add_row(name, *(f"{found[whose]:.3f}" for whose in columns))
    Console(width=120).print(table)
    if "kio" not in columns:
        print("kio: not installed here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
