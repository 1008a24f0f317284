"""Records at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

_RECORD = b"x" * 200
_SLICE_S = 0.02


@contextmanager
def produced(bootstrap_servers: str, topic: str, partitions: int, rate: int) -> Iterator[None]:
    """`rate` records a second of 200 bytes, by turns to the partitions, inside the block."""
    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
        begin, sent = time.monotonic(), 0
        while not stop.wait(_SLICE_S):
            wanted = int((time.monotonic() - begin) * rate)
            for number in range(sent, wanted):
                producer.produce(topic, _RECORD, partition=number % partitions)
            sent = wanted
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=produce, name="producer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
