"""Where logs end, as their leaders say (ListOffsets): what lags are counted from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connection import UpstreamUnavailableError

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]
LATEST = -1
CONSUMER = -1


async def log_end_offsets(cluster: UpstreamCluster, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """{(topic, partition): log end offset} of those whose leaders answer."""
    found = await _ask_leaders(cluster, wanted)
    missing = [key for key in wanted if key not in found]
    if missing and await cluster.try_refresh():  # a leader may have moved since it was asked for
        found |= await _ask_leaders(cluster, missing)
    return found


def by_leader(cluster: UpstreamCluster, wanted: Iterable[TopicPartition]) -> dict[int, dict[str, list[int]]]:
    """{leader: {topic: partitions}}, without partitions that have none."""
    leaders: dict[int, dict[str, list[int]]] = {}
    for name, partition in wanted:
        topic = cluster.topic(name)
        leader = topic.leaders.get(partition) if topic is not None else None
        if leader is not None and leader.node_id >= 0:
            leaders.setdefault(leader.node_id, {}).setdefault(name, []).append(partition)
    return leaders


async def _ask_leaders(cluster: UpstreamCluster, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    asked = by_leader(cluster, wanted)
    answers = await asyncio.gather(*(_ask(cluster, node_id, topics) for node_id, topics in asked.items()))
    return {key: offset for answer in answers for key, offset in answer.items()}


async def _ask(cluster: UpstreamCluster, node_id: int, topics: dict[str, list[int]]) -> dict[TopicPartition, int]:
    topic = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
                    for partition in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )
    try:
        answer = await cluster.ask(node_id, request, ListOffsetsResponse)
    except UpstreamUnavailableError as error:
        logger.warning("log end offsets of broker %d: %s", node_id, error)
        return {}
    return {
        (found.name, partition.partition_index): partition.offset
        for found in answer.topics
        for partition in found.partitions
        if not partition.error_code
    }
