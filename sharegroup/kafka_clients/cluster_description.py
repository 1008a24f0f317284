"""Which cluster it is and which brokers it has, of brokers of any release."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient


def describe_cluster(admin: KafkaAdminClient) -> dict[str, Any]:
    """What `KafkaAdminClient.describe_cluster` says. Raises kafka-python's errors.

    Where brokers have version 0 of DescribeCluster, which are those of 2.8 to 3.6, kafka-python (3.0.12) fails when it
    has the answer: it takes a field out of it that came with version 1. There the answer to Metadata, which says the
    same, is asked for, as kafka-python does for brokers that have no DescribeCluster.
    """
    try:
        found: dict[str, Any] = admin.describe_cluster()
    except KeyError:
        metadata = admin._manager.run(admin._get_cluster_metadata, [])
        brokers = [{**broker, "broker_id": broker["node_id"]} for broker in metadata["brokers"]]
        found = {**metadata, "brokers": brokers}
    return found
