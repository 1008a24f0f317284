"""Members of a share group in memory, for the tests of this directory."""

from __future__ import annotations

from typing import Any

from sharegroup.client import Record, ShareConsumer
from sharegroup.client.testing import InMemoryShareGroup, RecordState

PATIENCE_S = 60
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
#: The arguments of a member, except for its connector.
MEMBER: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "group_id": "billing", "topics": ["orders"]}


def group_of(*values: bytes, topics: dict[str, int] | None = None, **configs: Any) -> InMemoryShareGroup:
    """Return the group "billing" with these records in the topic "orders"."""
    group = InMemoryShareGroup("billing", topics, **configs)
    for value in values:
        group.produce("orders", value)
    return group


def member(group: InMemoryShareGroup, **settings: Any) -> ShareConsumer:
    """Return a member of the group."""
    return ShareConsumer(connector=group, **{**MEMBER, **settings})


def poll(consumer: ShareConsumer, count: int) -> list[Record[Any]]:
    """Poll until so many records arrived."""
    records: list[Record[Any]] = []
    while len(records) < count:
        found = consumer.poll(PATIENCE_S)
        assert found, "no record"
        records += found
    return records


def outcomes(group: InMemoryShareGroup) -> list[tuple[RecordState, int]]:
    """Return the state and the delivery count of each record."""
    return [(record.state, record.delivery_count) for record in group.records("orders")]
