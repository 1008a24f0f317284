"""A share consumer for Python (KIP-932), without Spark.

    with ShareConsumer("localhost:9192", group_id="billing", topics=["orders"]) as consumer:
        for record in consumer:
            print(record.value, record.delivery_count)

It works with the gateway and with the share groups of Kafka 4.2 and later.
"""

from sharegroup.client.async_consumer import AsyncShareConsumer
from sharegroup.client.commit_callback import CommitCallback
from sharegroup.client.consumer import ShareConsumer
from sharegroup.client.errors import (
    ConcurrentUseError,
    IllegalStateError,
    InvalidSettingError,
    RequestError,
    ShareGroupsUnsupportedError,
    WakeupError,
)
from sharegroup.client.handlers.decisions import Reject, Release, Retry
from sharegroup.client.records import CommitResults, Record, TopicIdPartition, UndecodableRecord
from sharegroup.types import AcknowledgeType

__all__ = [
    "AcknowledgeType",
    "AsyncShareConsumer",
    "CommitCallback",
    "CommitResults",
    "ConcurrentUseError",
    "IllegalStateError",
    "InvalidSettingError",
    "Record",
    "Reject",
    "Release",
    "RequestError",
    "Retry",
    "ShareConsumer",
    "ShareGroupsUnsupportedError",
    "TopicIdPartition",
    "UndecodableRecord",
    "WakeupError",
]
