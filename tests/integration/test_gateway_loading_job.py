"""What a gateway answers while a job loads: the test plays a job that has started and answers nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka import KafkaProducer

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY, NewLeaderBroadcast, encode_broadcast
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.integration.lone_gateway import lone_gateway
from tests.integration.test_gateway_group_kinds import joined
from tests.integration.waiting import wait_until


def test_a_member_is_to_wait_while_the_job_loads(
    kafka: EmbeddedKafka, producer: KafkaProducer, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    groups, partitions, responses = (unique_name(name) for name in ("groups", "partitions", "responses"))
    for topic in (groups, partitions, responses):
        kafka.create_topic(topic, 1)
    rows = {
        "share.group.requests.topic": groups,
        "share.partition.requests.topic": partitions,
        "share.group.responses.topic": responses,
    }
    with lone_gateway(tmp_path, kafka.bootstrap_servers, rows) as gateway:
        assert joined(gateway, "g", "orders", epoch=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE

        def is_loading() -> bool:
            """The row is repeated: a gateway reads those that come after it has started to read."""
            producer.send(responses, encode_broadcast(NewLeaderBroadcast()), BROADCAST_KEY.encode()).get(60)
            return joined(gateway, "g", "orders", epoch=1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        wait_until(is_loading, "the gateway knows that a job has started")
