"""Topic ids: Kafka's, or stable ones made from the names where the broker has none (before 2.8)."""

from __future__ import annotations

import base64
import hashlib
import uuid

NO_TOPIC_ID = uuid.UUID(int=0)


def made_topic_id(cluster_id: str | None, name: str) -> uuid.UUID:
    """The same id from everybody who knows this cluster, at any time."""
    digest = hashlib.sha256(f"sharegroup topic id\0{cluster_id or ''}\0{name}".encode()).digest()
    return uuid.UUID(bytes=digest[:16], version=4)


def topic_id_text(topic_id: uuid.UUID) -> str:
    """Kafka's text of a topic id: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_id_of(text: str) -> uuid.UUID:
    """The inverse of `topic_id_text`. Raises ValueError."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
