"""One name is one kind of group, in both directions, through our gateway and on Kafka itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Committed
from kafka import TopicPartition
from kafka.errors import GroupIdNotFoundError

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.integration.served import Served
from tests.integration.waiting import wait_until


def consumer_of(served: Served, group_id: str, protocol: str) -> Consumer:
    config = {"bootstrap.servers": served.bootstrap_servers, "group.id": group_id, "group.protocol": protocol}
    return Consumer({**config, "log_level": 0, "enable.auto.commit": False})


def join_error(consumer: Consumer, topic: str) -> str:
    """The name and the text of the error that the consumer gets for its subscription."""
    found: list[str] = []

    def has_failed() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            found.append(f"{message.error().name()} {message.error().str()}")
        return bool(found)

    consumer.subscribe([topic])
    wait_until(has_failed, "the consumer is refused")
    return found[0]


def test_no_consumer_group_has_the_name_of_a_share_group(
    admin: ShareGroupAdmin, served: Served, unique_name: Callable[[str], str]
) -> None:
    group_id, topic = unique_name("share"), served.new_topic(unique_name("topic"), 1, 5)
    partition = TopicPartition(topic, 0)
    wait_until(lambda: admin.alter_group_offsets(group_id, {partition: 1})[partition] is None, "the topic is known")
    for protocol, expected in (("classic", "INCONSISTENT_GROUP_PROTOCOL"), ("consumer", "The group id does not exist")):
        consumer = consumer_of(served, group_id, protocol)
        assert expected in join_error(consumer, topic)
        consumer.close()
    simple = consumer_of(served, group_id, "classic")
    with pytest.raises(KafkaException) as refused:
        simple.commit(offsets=[Committed(topic, 0, 3)], asynchronous=False)
    assert refused.value.args[0].name() == "GROUP_ID_NOT_FOUND"
    simple.close()
    assert [row.group_type for row in admin.list_groups(types=()) if row.group_id == group_id] == ["share"]


def test_no_share_group_has_the_name_of_a_consumer_group(
    admin: ShareGroupAdmin, served: Served, unique_name: Callable[[str], str]
) -> None:
    group_id, topic = unique_name("classic"), served.new_topic(unique_name("topic"), 1, 5)
    simple = consumer_of(served, group_id, "classic")
    (committed,) = simple.commit(offsets=[Committed(topic, 0, 3)], asynchronous=False)
    assert committed.error is None
    simple.close()
    with pytest.raises(GroupIdNotFoundError):
        admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): 1})
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets(group_id, [topic])
    assert [row.group_type for row in admin.list_groups(types=()) if row.group_id == group_id] == ["classic"]
