"""An admin client for share groups, similar to kafka-python's KafkaAdminClient (docs/admin.md).

    with ShareGroupAdmin("localhost:9092") as admin:
        for group in admin.list_groups(states=["Empty"]):
            print(group.group_id, admin.list_group_offsets(group.group_id))

It uses only Kafka's protocol, so it works with this project's gateway and with Kafka 4.2 or later.
"""

from sharegroup.kafka_clients.admin.client import ShareGroupAdmin
from sharegroup.kafka_clients.admin.results import (
    ConfigEntry,
    ConfigSource,
    Coordinator,
    GroupListing,
    LogOffsets,
    MemberDescription,
    OldestRecord,
    ShareGroupDescription,
    ShareGroupOffset,
)
from sharegroup.protocol.rows.share_group_fields import MemberIdentity

__all__ = [
    "ConfigEntry",
    "ConfigSource",
    "Coordinator",
    "GroupListing",
    "LogOffsets",
    "MemberDescription",
    "MemberIdentity",
    "OldestRecord",
    "ShareGroupAdmin",
    "ShareGroupDescription",
    "ShareGroupOffset",
]
