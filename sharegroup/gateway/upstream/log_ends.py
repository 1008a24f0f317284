"""Reads log end offsets from the partition leaders (ListOffsets), from which the lag is computed."""

import asyncio
from collections.abc import Collection, Iterable

from kafka import TopicPartition
from kafka.protocol.consumer import ListOffsetsResponse

from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.list_offsets import LATEST, list_offsets_request, read_offsets
from sharegroup.log_fields import LogFields


async def log_end_offsets(cluster: UpstreamCluster, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return {(topic, partition): log end offset}. Partitions whose leader does not respond are left out."""
    found = await _request_leaders(cluster, wanted)
    missing = [key for key in wanted if key not in found]
    if missing and await cluster.try_refresh():  # a leader may have moved since the last refresh
        found |= await _request_leaders(cluster, missing)
    return found


def group_by_leader(cluster: UpstreamCluster, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Return {node id of the leader: its partitions}. Partitions without a leader are left out."""
    leaders: dict[int, list[TopicPartition]] = {}
    for partition in wanted:
        topic = cluster.topic(partition.topic)
        leader = topic.leaders.get(partition.partition) if topic is not None else None
        if leader is not None and leader.node_id >= 0:
            leaders.setdefault(leader.node_id, []).append(partition)
    return leaders


async def _request_leaders(cluster: UpstreamCluster, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    partitions_by_leader = group_by_leader(cluster, wanted)
    responses = await asyncio.gather(
        *(_list_offsets(cluster, node_id, partitions) for node_id, partitions in partitions_by_leader.items())
    )
    return {key: offset for response in responses for key, offset in response.items()}


async def _list_offsets(
    cluster: UpstreamCluster, node_id: int, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        request = list_offsets_request(dict.fromkeys(partitions, LATEST))
        response = await cluster.ask(node_id, request, ListOffsetsResponse)
    except UpstreamUnavailableError as error:
        cluster.log_end_outages.report_failure(node_id, error, LogFields(broker=node_id))
        return {}
    cluster.log_end_outages.report_success(node_id)
    return read_offsets(response)
