"""Topic ids: their text format, and derived ids for brokers that do not support topic ids (before Kafka 2.8)."""

import base64
import hashlib
import uuid

NO_TOPIC_ID = uuid.UUID(int=0)


def derive_topic_id(cluster_id: str | None, name: str) -> uuid.UUID:
    """Derive a topic id from the cluster id and the topic name. All processes derive the same id."""
    digest = hashlib.sha256(f"sharegroup topic id\0{cluster_id or ''}\0{name}".encode()).digest()
    return uuid.UUID(bytes=digest[:16], version=4)


def topic_id_text(topic_id: uuid.UUID) -> str:
    """Return a topic id in Kafka's text format: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> uuid.UUID:
    """Parse a topic id in Kafka's text format. Raises ValueError if the text is not a topic id."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
