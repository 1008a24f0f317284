"""The id and the brokers of a cluster, for brokers of any release."""

from typing import Any

from kafka import KafkaAdminClient


def describe_cluster(admin: KafkaAdminClient) -> dict[str, Any]:
    """Return the result of `KafkaAdminClient.describe_cluster`. Raises kafka-python's errors.

    Brokers of 2.8 to 3.6 have version 0 of DescribeCluster. kafka-python (3.0.12) fails to read its response, because
    it expects a field of version 1. For these brokers, Metadata is requested, which has the same information.
    kafka-python does the same for brokers without DescribeCluster.
    """
    try:
        found: dict[str, Any] = admin.describe_cluster()
    except KeyError:
        metadata = admin._manager.run(admin._get_cluster_metadata, [])
        brokers = [{**broker, "broker_id": broker["node_id"]} for broker in metadata["brokers"]]
        found = {**metadata, "brokers": brokers}
    return found
