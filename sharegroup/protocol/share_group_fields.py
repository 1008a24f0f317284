"""Fields that only rows of `__share_group_requests` have; each check raises AnswerableError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sharegroup.protocol.row_fields import MAX_INT32, MAX_OFFSET, AnswerableError, is_integer


class TopicMetadata(NamedTuple):
    """What the requester knows of a topic: its id as text and its number of partitions."""

    topic_id: str
    partitions: int


class StartOffset(NamedTuple):
    """Where a share-partition is to start: an entry of `offsets`."""

    topic: str
    partition: int
    start_offset: int


def topic_metadata(row: Mapping[str, Any]) -> dict[str, TopicMetadata]:
    """{topic: [topic_id, partitions]}"""
    topics = row.get("topics", {})
    if not isinstance(topics, dict) or not all(
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and is_integer(item[1], 0, 1_000_000)
        for item in topics.values()
    ):
        raise AnswerableError("topics must map topic names to [topic_id, partitions]", row)
    return {name: TopicMetadata(topic_id, partitions) for name, (topic_id, partitions) in topics.items()}


def share_partitions(row: Mapping[str, Any], field: str) -> tuple[tuple[str, int, int], ...]:
    """[[topic, partition, state_epoch], ...]"""
    items = row.get(field, [])
    if not _are_triples(items) or not all(is_integer(number, 0, MAX_INT32) for item in items for number in item[1:]):
        raise AnswerableError(f"{field} must be a list of [topic, partition, state_epoch]", row)
    return tuple((topic, partition, state_epoch) for topic, partition, state_epoch in items)


def start_offsets(row: Mapping[str, Any]) -> tuple[StartOffset, ...]:
    """[[topic, partition, start_offset], ...]; which of them may be altered is the group's business."""
    items = row.get("offsets")
    if (
        not _are_triples(items)
        or not items
        or not all(
            is_integer(item[1], -MAX_INT32, MAX_INT32) and is_integer(item[2], -MAX_OFFSET, MAX_OFFSET)
            for item in items
        )
    ):
        raise AnswerableError("offsets must be a list of [topic, partition, start_offset]", row)
    return tuple(StartOffset(topic, partition, offset) for topic, partition, offset in items)


def topic_names(row: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """[topic, ...]"""
    names = row.get(field)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise AnswerableError(f"{field} must be a list of topic names", row)
    return tuple(names)


def configs(row: Mapping[str, Any]) -> dict[str, str | None]:
    """{config name: value as text, or null to go back to the job's value}"""
    values = row.get("configs")
    if not isinstance(values, dict) or not all(value is None or isinstance(value, str) for value in values.values()):
        raise AnswerableError("configs must map names to texts or null", row)
    return dict(values)


def _are_triples(items: object) -> bool:
    return isinstance(items, list) and all(
        isinstance(item, list) and len(item) == 3 and isinstance(item[0], str) for item in items
    )
