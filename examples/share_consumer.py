"""A share consumer in Python: confluent-kafka, which is not part of this project, connected to a gateway.

    python -W ignore examples/share_consumer.py 127.0.0.1:9192 billing orders 100

It processes 100 records of the topic `orders` as a member of the group `billing`. It accepts numbers and rejects all
other records. Start it several times to share the work.
"""

from __future__ import annotations

import sys

from confluent_kafka import AcknowledgeType, Message, ShareConsumer


def process(message: Message) -> AcknowledgeType:
    """Return how to acknowledge a record: ACCEPT, REJECT (archive it), or RELEASE (deliver it again)."""
    try:
        print(f"partition {message.partition()}, offset {message.offset()}: {int(message.value())}")
    except (TypeError, ValueError):  # a record may have no value
        return AcknowledgeType.REJECT
    return AcknowledgeType.ACCEPT


def main(bootstrap_servers: str, group_id: str, topic: str, count: int) -> None:
    """Process `count` records."""
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": group_id, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    while count > 0:
        for message in consumer.poll(timeout=1):
            consumer.acknowledge(message, process(message))
            count -= 1
        consumer.commit_sync()
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:4], count=int(sys.argv[4]))
