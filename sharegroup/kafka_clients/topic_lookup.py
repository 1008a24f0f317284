"""Looks up the topic metadata that a member sends to the job: topic ids and numbers of partitions."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaAdminClient

from sharegroup.kafka_clients.cluster_description import describe_cluster
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, derive_topic_id, topic_id_text


class TopicLookup:
    """Requests topic metadata from the brokers. Connects at the first request. Methods raise KafkaError.

    `settings` are kafka-python's.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._admin: KafkaAdminClient | None = None
        self._cluster_id: str | None = None

    def list_names(self) -> set[str]:
        """Return the names of the topics that exist and that this client may describe."""
        return set(self._connected().list_topics())

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Return {topic: metadata} for the topics in `names` that exist."""
        present = self.list_names()  # requesting a missing topic could create it
        wanted = [name for name in names if name in present]
        admin = self._connected()
        described = admin.describe_topics(wanted) if wanted else []
        return {
            topic["name"]: TopicMetadata(
                topic_id_text(self._topic_id(admin, topic["name"], topic.get("topic_id"))),
                len(topic["partitions"]),
            )
            for topic in described
            if not topic["error_code"] and topic["partitions"]
        }

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(**self._settings)
        return self._admin

    def _topic_id(self, admin: KafkaAdminClient, name: str, of_broker: uuid.UUID | str | None) -> uuid.UUID:
        """Return the topic id that the broker sent, or one that is derived from the name.

        Brokers before 2.8 have no topic ids. The gateway and the job derive the same id.
        """
        topic_id = NO_TOPIC_ID if of_broker is None else uuid.UUID(str(of_broker))
        if topic_id != NO_TOPIC_ID:
            return topic_id
        if self._cluster_id is None:
            self._cluster_id = describe_cluster(admin).get("cluster_id")
        return derive_topic_id(self._cluster_id, name)

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


def lookup_topic_id(settings: Mapping[str, Any], name: str) -> str:
    """Return the id of a topic. The connection is opened for this call and closed again.

    Raises KeyError if the topic does not exist, and KafkaError if the request fails.
    """
    lookup = TopicLookup(settings)
    try:
        return lookup.describe_topics([name])[name].topic_id
    finally:
        lookup.close()
