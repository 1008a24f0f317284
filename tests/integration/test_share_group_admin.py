"""ShareGroupAdmin, against our gateway and against Kafka's own share groups."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import TopicPartition
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidConfigurationError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from sharegroup.kafka_clients.admin import ConfigSource, LogOffsets, MemberIdentity, ShareGroupAdmin, ShareGroupOffset
from tests.integration.served import Served
from tests.integration.waiting import wait_until

LOCK = "share.record.lock.duration.ms"


def test_a_group_that_an_administrator_makes(
    admin: ShareGroupAdmin,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("made"), served.new_topic(unique_name("topic"), 2, 5)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    wait_until(
        lambda: admin.alter_group_offsets(group_id, {first: 1})[first] is None, "the coordinator knows the topic"
    )
    answers = admin.alter_group_offsets(group_id, {first: 2, TopicPartition(topic, 7): 1})
    assert answers[first] is None
    assert isinstance(answers[TopicPartition(topic, 7)], UnknownTopicOrPartitionError)

    assert (group_id, "Empty", "share") in {row[:3] for row in admin.list_groups()}
    assert group_id in {row.group_id for row in admin.list_groups(states=["empty"], types=["share", "consumer"])}
    assert group_id not in {row.group_id for row in admin.list_groups(states=["Stable"])}
    assert group_id not in {row.group_id for row in admin.list_groups(types=["classic"])}
    group = admin.describe_groups([group_id], include_authorized_operations=True)[group_id]
    assert (group.group_state, group.members, group.assignor_name) == ("Empty", (), "simple")
    assert f"{group.coordinator.host}:{group.coordinator.port}" in served.bootstrap_servers
    assert group.authorized_operations
    assert admin.describe_groups([group_id])[group_id].authorized_operations is None

    assert admin.leaders([topic]) == {first: 1, second: 1}
    assert admin.log_offsets([first, second]) == {first: LogOffsets(0, 5), second: LogOffsets(0, 5)}
    assert admin.offsets_at([first], 0) == {first: 0}
    assert admin.offsets_at([first], 2**53) == {first: None}
    offsets = admin.list_group_offsets(group_id)
    assert {key: (found.start_offset, found.lag) for key, found in offsets.items()} == {first: (2, 3)}
    assert admin.list_group_offsets(group_id, [second]) == {second: ShareGroupOffset(None, None, None)}
    assert {key: record.offset for key, record in admin.oldest_unfinished(offsets).items()} == {first: 2}

    assert admin.delete_group_offsets(group_id, [topic]) == {topic: None}
    assert admin.list_groups_offsets([group_id]) == {group_id: {}}
    assert admin.delete_groups([group_id]) == {group_id: None}
    assert group_id not in {row.group_id for row in admin.list_groups()}


def test_a_group_with_a_member(
    admin: ShareGroupAdmin,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("read"), served.new_topic(unique_name("topic"), 2, 5)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    admin.alter_group_configs(group_id, {"share.auto.offset.reset": "earliest"})
    with served.member(group_id, topic) as member:
        member.poll_until(lambda: len(member.accepted) == 10)
        wait_until(
            lambda: [found.lag for found in admin.list_group_offsets(group_id).values()] == [0, 0], "the lag is 0"
        )
        assert admin.oldest_unfinished(admin.list_group_offsets(group_id)) == {}
        group = admin.describe_groups([group_id])[group_id]
        assert group.group_state == "Stable"
        (found,) = group.members
        assert (found.client_id, found.client_host) == ("teller", "/127.0.0.1")
        assert (found.subscribed_topic_names, list(found.assignment)) == ((topic,), partitions)
        before = admin.list_group_offsets(group_id)

        with pytest.raises(NonEmptyGroupError):
            admin.alter_group_offsets(group_id, dict.fromkeys(partitions, 0))
        with pytest.raises(NonEmptyGroupError):
            admin.delete_group_offsets(group_id, [topic])
        assert isinstance(admin.delete_groups([group_id])[group_id], NonEmptyGroupError)
        assert admin.list_group_offsets(group_id) == before
        assert admin.describe_groups([group_id])[group_id] == group
        if served.is_gateway:
            assert admin.invoke_consumer_rebalance(group_id) == [], "only static members may be away"
        else:
            with pytest.raises(GroupIdNotFoundError, match="not a share group of a share-group gateway"):
                admin.invoke_consumer_rebalance(group_id)

    served.append(topic, 1, 3)
    after = admin.list_group_offsets(group_id)
    assert [found.lag for found in after.values()] == [3, 0]
    oldest = admin.oldest_unfinished(after)
    assert oldest.keys() == {partitions[0]}
    assert oldest[partitions[0]].timestamp_ms > 0
    if served.is_gateway:
        assert oldest[partitions[0]].offset == 5
    wait_until(lambda: not admin.describe_groups([group_id])[group_id].members, "the member has left")
    assert admin.alter_group_offsets(group_id, dict.fromkeys(partitions, 1)) == dict.fromkeys(partitions)
    assert {found.start_offset for found in admin.list_group_offsets(group_id).values()} == {1}


def test_what_is_not_there(
    admin: ShareGroupAdmin,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("nowhere"), served.new_topic(unique_name("topic"))
    with pytest.raises(GroupIdNotFoundError, match="not found"):
        admin.describe_groups([group_id])
    assert admin.describe_groups([group_id], missing_ok=True) == {}
    assert admin.list_group_offsets(group_id) == {}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets(group_id, [topic])
    assert isinstance(admin.delete_groups([group_id])[group_id], GroupIdNotFoundError)
    with pytest.raises(GroupIdNotFoundError, match="does not exist"):
        admin.invoke_consumer_rebalance(group_id)
    unknown = admin.remove_members(group_id, ["m", MemberIdentity(group_instance_id="worker-1")])
    assert [type(error) for error in unknown.values()] == [UnknownMemberIdError, UnknownMemberIdError]
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.leaders([unique_name("no-topic")])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.log_offsets([TopicPartition(topic, 1)])
    assert admin.describe_group_configs([]) == {}
    assert group_id not in {row.group_id for row in admin.list_groups()}


def test_configs_of_a_group(
    admin: ShareGroupAdmin,
    unique_name: Callable[[str], str],
) -> None:
    group_id = unique_name("configured")

    def lock() -> tuple[str | None, bool]:
        entry = admin.describe_group_configs([group_id])[group_id][LOCK]
        return entry.value, entry.is_of_group

    default = lock()
    assert not default[1]
    admin.alter_group_configs(group_id, {LOCK: "40000"}, validate_only=True)
    with pytest.raises(InvalidConfigurationError, match=r"share\.bogus"):
        admin.alter_group_configs(group_id, {LOCK: "40000", "share.bogus": "1"})
    with pytest.raises(InvalidConfigurationError):
        admin.alter_group_configs(group_id, {LOCK: "1"})
    assert lock() == default
    admin.alter_group_configs(group_id, {LOCK: "40000"})
    wait_until(lambda: lock() == ("40000", True), "the config is told")
    entry = admin.describe_group_configs([group_id])[group_id][LOCK]
    assert entry.synonyms[0] == (ConfigSource.DYNAMIC_GROUP_CONFIG, LOCK, "40000")
    assert group_id in admin.list_groups_with_configs()
    admin.alter_group_configs(group_id, removed=[LOCK])
    wait_until(lambda: lock() == default, "the config is gone")


def test_of_two_administrators_at_once_one_wins(
    admin: ShareGroupAdmin,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group_id, topic = unique_name("contested"), served.new_topic(unique_name("topic"), 4, 5)
    partitions = [TopicPartition(topic, number) for number in range(4)]
    wait_until(
        lambda: admin.alter_group_offsets(group_id, dict.fromkeys(partitions, 0)) == dict.fromkeys(partitions),
        "the coordinator knows the topic",
    )
    with ThreadPoolExecutor(2) as threads:
        wanted = [dict.fromkeys(partitions, offset) for offset in (2, 4)]
        answers = list(threads.map(lambda offsets: admin.alter_group_offsets(group_id, offsets), wanted))
    assert answers == 2 * [dict.fromkeys(partitions)]
    found = {offset.start_offset for offset in admin.list_group_offsets(group_id).values()}
    assert found in ({2}, {4})
