"""Requests about the logs that share groups read: leaders, start and end offsets, and records."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.protocol.consumer import FetchRequest, OffsetSpec
from kafka.protocol.metadata import MetadataRequest
from kafka.record import MemoryRecords

from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.errors import check
from sharegroup.kafka_clients.admin.results import LogOffsets, OldestRecord

#: The newest version of Fetch that identifies topics by name. Later versions use topic ids.
_NAMES_VERSION = 12
_METADATA_VERSION = 9
#: Maximum size of a fetch, in bytes. For the first partition of a request, the broker nevertheless returns the whole
#: batch at the fetch offset. So a fetch of one partition returns one batch.
_FETCH_BYTES = 1

#: {partition: broker id of its leader, -1 if the partition has no leader}
Leaders = dict[TopicPartition, int]


def leaders(brokers: Brokers, topics: Iterable[str]) -> Leaders:
    """Return the leader of each partition of the topics. Raises UnknownTopicOrPartitionError for a missing topic."""
    names = sorted(set(topics))
    if not names:
        return {}
    kind = MetadataRequest.MetadataRequestTopic
    asked = [kind(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False, max_version=_METADATA_VERSION)
    found: Leaders = {}
    for topic in brokers.request(request).topics:
        check(topic.error_code)
        found |= {TopicPartition(topic.name, row.partition_index): row.leader_id for row in topic.partitions}
    return dict(sorted(found.items()))


def log_offsets(brokers: Brokers, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
    """Return start and end offsets of logs.

    Raises UnknownTopicOrPartitionError if a partition is missing, NotLeaderForPartitionError if its leader has moved.
    """
    if not partitions:
        return {}
    starts = offsets_at(brokers, dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    ends = offsets_at(brokers, dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    return {key: LogOffsets(starts[key], ends[key]) for key in partitions}


def offsets_at(brokers: Brokers, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return {partition: offset of the first record at or after the partition's timestamp (in ms)}.

    The offset is -1 if there is no such record.
    """
    if not timestamps_ms:
        return {}
    found = brokers.retry(lambda: brokers.admin.list_partition_offsets(dict(timestamps_ms)))
    return {key: found[key].offset for key in timestamps_ms}


def oldest_records(brokers: Brokers, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, OldestRecord]:
    """Return {partition: first record at or above the partition's offset}.

    Partitions without such a record and partitions without a leader are left out.
    """
    nodes = leaders(brokers, {key.topic for key in offsets})
    found = {}
    for key, offset in offsets.items():
        if nodes.get(key, -1) >= 0 and (record := _first_record(brokers, nodes[key], key, offset)) is not None:
            found[key] = record
    return found


def _first_record(brokers: Brokers, node_id: int, key: TopicPartition, offset: int) -> OldestRecord | None:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=key.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=key.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=_NAMES_VERSION,
    )
    response = brokers.request(request, node_id)
    check(response.error_code)
    for row in (row for answer in response.responses for row in answer.partitions):
        if row.error_code:
            return None
        return _first(row.records, offset)
    return None


def _first(records: Any, offset: int) -> OldestRecord | None:
    if not records:
        return None
    batches = MemoryRecords(records)
    while batches.has_next():
        batch = batches.next_batch()
        if batch is None:
            return None
        for record in batch:
            if record.offset >= offset:
                return OldestRecord(record.offset, record.timestamp)
    return None
