"""The id and the brokers of a cluster, for brokers of any release."""

from typing import Any

from kafka import KafkaAdminClient


def describe_cluster(admin: KafkaAdminClient) -> dict[str, Any]:
    """Return the result of `KafkaAdminClient.describe_cluster`. Raises kafka-python's errors.

    Kafka 2.8 to 3.6 supports only version 0 of DescribeCluster. kafka-python (3.0.12) fails to read a response of this
    version, because it expects a field of version 1. So these brokers get a Metadata request, whose response has the
    same information. kafka-python itself sends Metadata to brokers without DescribeCluster.
    """
    try:
        found: dict[str, Any] = admin.describe_cluster()
    except KeyError:
        metadata = admin._manager.run(admin._get_cluster_metadata, [])
        brokers = [{**broker, "broker_id": broker["node_id"]} for broker in metadata["brokers"]]
        found = {**metadata, "brokers": brokers}
    return found
