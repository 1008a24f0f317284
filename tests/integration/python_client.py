"""Python's Kafka clients as programs: `produce` sends the lines of its input, `consume` prints so many values.

python -m tests.integration.python_client LIBRARY produce BOOTSTRAP TOPIC
python -m tests.integration.python_client LIBRARY consume|share BOOTSTRAP TOPIC GROUP COUNT

LIBRARY is kafka-python, librdkafka (confluent-kafka), or librdkafka-848, which has a consumer with the newer protocol
of consumer groups (KIP-848). What it reads is committed, or accepted, before it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.integration.waiting import PATIENCE_S

POLL_S = 1.0


def main(library: str, what: str, bootstrap_servers: str, topic: str, group: str = "", count: str = "0") -> None:
    """Do `what`."""
    if what == "produce":
        produce = _kafka_python_produce if library == "kafka-python" else _librdkafka_produce
        produce(bootstrap_servers, topic, (line.rstrip("\n").encode() for line in sys.stdin))
        return
    read: Callable[..., Iterator[bytes]]
    if what == "share":
        read = _librdkafka_share
    else:
        read = _kafka_python_consume if library == "kafka-python" else _librdkafka_consume
    protocol = {"group.protocol": "consumer"} if library == "librdkafka-848" else {}
    for value in read(bootstrap_servers, topic, group, int(count), protocol):
        print(value.decode(), flush=True)


def _kafka_python_produce(bootstrap_servers: str, topic: str, values: Iterable[bytes]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for value in values:
        producer.send(topic, value).get(PATIENCE_S)
    producer.close()


def _kafka_python_consume(
    bootstrap_servers: str, topic: str, group: str, count: int, protocol: dict[str, str]
) -> Iterator[bytes]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap_servers, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=1000 * PATIENCE_S, **protocol,
    )  # fmt: skip
    for _, record in zip(range(count), consumer, strict=False):
        yield record.value
    consumer.commit()
    consumer.close()


def _librdkafka_produce(bootstrap_servers: str, topic: str, values: Iterable[bytes]) -> None:
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def _librdkafka_consume(
    bootstrap_servers: str, topic: str, group: str, count: int, protocol: dict[str, str]
) -> Iterator[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **protocol,
        }
    )
    consumer.subscribe([topic])
    for _ in range(count):
        message = None
        while message is None:  # whoever waits for this program has a limit for it
            message = consumer.poll(POLL_S)
        assert message.error() is None, message.error()
        yield message.value()
    consumer.commit(asynchronous=False)
    consumer.close()


def _librdkafka_share(
    bootstrap_servers: str, topic: str, group: str, count: int, protocol: dict[str, str]
) -> Iterator[bytes]:
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 1, **protocol})
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        for message in consumer.poll(timeout=POLL_S):
            assert message.error() is None, message.error()
            seen += 1
            yield message.value()
    consumer.close()  # accepts what the last poll brought


if __name__ == "__main__":
    main(*sys.argv[1:])
