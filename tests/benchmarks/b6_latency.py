"""B6: produce to poll at 1,000 records a second without reservations, in multiples of B1's bare micro-batch."""

from __future__ import annotations

import threading
import time
import warnings
from pathlib import Path

import yaml
from confluent_kafka import Producer, ShareConsumer

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.side_by_side import JobUnderLoad, Turns

NAME = "B6"
_RATE = 1_000
_REACH_P50, _REACH_P99 = 1.6, 3.0
_TOPIC, _GROUP = "latency", "latency"


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The bare micro-batch first, then the latency, of the same job."""
    seconds, turns = (10, Turns(1, 5, 5)) if quick else (45, Turns(3, 10, 30))
    kafka.create_topic(_TOPIC, partitions=2)
    with JobUnderLoad(kafka, directory / "b6", partitions=1, rounds=4_000) as job:
        measured = job.compare(1, turns)
        job.member.go_on()
        job.member.leave()
        bare = median([batch.trigger_ms for batch in measured.bare])
        with GatewayProcess(_without_reservations(job.config), directory / "gateway.log") as gateway:
            latencies = _latencies(gateway.bootstrap_servers, seconds)
    p50, p99 = percentile(latencies, 50), percentile(latencies, 99)
    note = f"{len(latencies):,} records, 2 partitions"
    return [
        Figure(NAME, "produce to poll, p50", p50, "ms", bare, p50 / bare, f"<= {_REACH_P50}",
               p50 / bare <= _REACH_P50, note),
        Figure(NAME, "produce to poll, p99", p99, "ms", bare, p99 / bare, f"<= {_REACH_P99}",
               p99 / bare <= _REACH_P99, note),
    ], {"bare_ms": bare, "p50_ms": p50, "p99_ms": p99}  # fmt: skip


def _without_reservations(config: Path) -> Path:
    """Return a copy of the job's configuration for a gateway whose records come by micro-batches."""
    content = yaml.safe_load(config.read_text())
    content["gateway"]["gateway.reservations.enable"] = False
    path = config.with_name("gateway.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


def _latencies(bootstrap_servers: str, seconds: float) -> list[float]:
    """Milliseconds, of the records produced after the first one came: what lay there by then waited for the member."""
    warnings.simplefilter("ignore")
    consumer = ShareConsumer({"bootstrap.servers": bootstrap_servers, "group.id": _GROUP})
    consumer.subscribe([_TOPIC])
    stop = threading.Event()
    producing = threading.Thread(target=_produce, args=(bootstrap_servers, stop))
    producing.start()
    found: list[float] = []
    try:
        begin: float | None = None
        while begin is None or time.time() < begin + seconds:
            for message in consumer.poll(timeout=1.0):
                if message.error() is not None:
                    continue
                now, produced = time.time(), float(message.value())
                if begin is None:
                    begin = now
                elif produced >= begin:
                    found.append((now - produced) * 1000)
    finally:
        stop.set()
        producing.join()
        consumer.close()
    return found


def _produce(bootstrap_servers: str, stop: threading.Event) -> None:
    """At a steady rate; a record's value is the time it was produced at."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 1})
    begin, sent = time.monotonic(), 0
    while not stop.wait(0.005):  # the pace of the load, not a wait for something
        due = int((time.monotonic() - begin) * _RATE)
        for number in range(sent, due):
            producer.produce(_TOPIC, b"%.6f" % time.time(), partition=number % 2)
        sent = due
        producer.poll(0)
    producer.flush(30)
