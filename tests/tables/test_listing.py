"""The indexes of the listed share-partitions, compared with scans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.job.knowledge.listing import Listing, TopicIdPartition
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey

#: Two topics with the same name, and another one.
TOPICS = [("orders", "old"), ("orders", "new"), ("bills", "bills-id")]
KEYS = [SharePartitionKey(g, name, id_, partition) for g in "gh" for name, id_ in TOPICS for partition in range(2)]
STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["lead", "delete", "drop"])), max_size=30)


@given(STEPS)
def test_each_poll_equals_a_scan(steps: list[tuple[SharePartitionKey, str]]) -> None:
    listing, plain = Listing(), dict[SharePartitionKey, SharePartitionRow]()
    for key, what in steps:
        if what == "drop":
            listing.remove(key)
            plain.pop(key, None)
        else:
            plain[key] = SharePartitionRow(key, False, 1, -1, what == "delete")
            listing.put(plain[key])
    led = sorted(key for key, row in plain.items() if not row.deleting)
    logs = {TopicIdPartition.for_key(key) for key in led}
    assert set(listing.logs) == logs
    assert set(listing.topics) == {(log.topic, log.topic_id) for log in logs}
    assert set(listing.groups) == {key.group_id for key in led}
    assert [row.key for row in listing.manageable_rows(KEYS)] == led
    assert [key for key in KEYS if listing.get(key) != plain.get(key)] == []
    for name, topic_id in TOPICS:
        assert listing.has_name(name) == any(key.topic == name for key in plain)
        assert set(listing.ids_of(name)) == {log.topic_id for log in logs if log.topic == name}
        assert set(listing.logs_of(topic_id)) == {log for log in logs if log.topic_id == topic_id}
        for group_id in "gh":
            of_group = [key for key in led if key.group_id == group_id]
            assert set(listing.logs_of_group(group_id)) == {TopicIdPartition.for_key(key) for key in of_group}
            of_topic = {TopicIdPartition.for_key(key) for key in of_group if key.topic_id == topic_id}
            assert set(listing.logs_of_group(group_id, topic_id)) == of_topic
    for log in logs:
        assert set(listing.keys_of(log)) == {key for key in led if TopicIdPartition.for_key(key) == log}
