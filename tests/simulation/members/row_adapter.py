"""The fields of share-partitions in rows: the only module of the members that depends on them."""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_responses import SharePartitionResponse
from tests.simulation.judges.judge import Key

Named = tuple[str, str, str, str, int, str, int, str, str | None]


def named(
    request_id: str, key: Key, member_id: str, epoch: int, reply_to: str, incarnation_id: str | None = None
) -> Named:
    """Return the first fields of a request for a share-partition."""
    share_partition = key.group_id, key.topic, key.topic_id, key.partition
    return request_id, *share_partition, member_id, epoch, reply_to, incarnation_id


def assigned_topics(response: HeartbeatResponse) -> Iterator[tuple[str, str, list[int]]]:
    """Yield (topic, topic id, partitions) of an assignment."""
    for topic, (topic_id, partitions) in (response.assignment or {}).items():
        yield topic, topic_id, partitions


def response_key(named: Key | SharePartitionResponse) -> tuple[str, str, int]:
    """Return the common key of a response and a share-partition."""
    return named.group_id, named.topic_id, named.partition
