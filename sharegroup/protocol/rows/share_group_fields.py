"""Checks of fields that occur only in rows of `__share_group_requests`.

Each function returns the parsed value of a field. It raises InvalidFieldError if the value has another format, or is
longer than allowed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sharegroup.protocol.rows.row_fields import MAX_INT32, MAX_OFFSET, MAX_TEXT_LENGTH, InvalidFieldError, is_integer
from sharegroup.types import MAX_TOPIC_NAME_LENGTH, is_topic_name

#: Maximum number of partitions of a topic. It is limited because the job creates a table row for each partition. Topics
#: of large clusters have a few thousand partitions.
MAX_TOPIC_PARTITIONS = 10_000
#: Maximum total number of partitions of the topics in a request. Large clusters have 200,000 partitions.
MAX_PARTITIONS = 100_000
#: Maximum number of members in a request.
MAX_MEMBERS = 1_000


class TopicMetadata(NamedTuple):
    """Metadata of a topic, sent by a requester: the topic id in Kafka's text format, and the number of partitions."""

    topic_id: str
    partitions: int


class StartOffset(NamedTuple):
    """The new start offset of a share-partition: an entry of `offsets` in an alter_offsets row."""

    topic: str
    partition: int
    start_offset: int


class MemberIdentity(NamedTuple):
    """The ids by which a request names a member: its member id, its group instance id, or both.

    If both are given, they must belong to the same member. Only `ALL_AWAY`, which names no single member, has neither.
    """

    member_id: str = ""
    group_instance_id: str | None = None


#: If a LeaveGroup request contains this identity, it requests a rebalance, which removes static members without a
#: running process. Kafka's clients never send this identity.
ALL_AWAY = MemberIdentity()


def members(row: Mapping[str, Any], field: str) -> tuple[MemberIdentity, ...]:
    """Parse [[member_id, group_instance_id or null], ...]. This function does not check that the members exist."""
    items = row.get(field)
    if (
        not isinstance(items, list)
        or len(items) > MAX_MEMBERS
        or not all(isinstance(item, list) and len(item) == 2 and _is_short(item[0]) for item in items)
        or not all(item[1] is None or _is_short(item[1]) for item in items)
    ):
        message = f"{field} must be a list of at most {MAX_MEMBERS} entries [member_id, group_instance_id or null]"
        raise InvalidFieldError(message, row)
    return tuple(MemberIdentity(*item) for item in items)


def subscribed_topic_names(row: Mapping[str, Any], field: str) -> tuple[str, ...] | None:
    """Parse [topic, ...] or null. This function checks neither that the names are legal nor that the topics exist."""
    return None if row.get(field) is None else topic_names(row, field, " or null")


def topic_metadata(row: Mapping[str, Any], field: str) -> dict[str, TopicMetadata]:
    """Parse {topic: [topic_id, partitions]}.

    A missing field results in {}. Raises InvalidFieldError also for an illegal topic name or too many partitions,
    because the job creates table rows from these values.
    """
    topics = row.get(field, {})
    if not isinstance(topics, dict) or not all(
        isinstance(item, list) and len(item) == 2 and _is_short(item[0]) and is_integer(item[1], 0, MAX_INT32)
        for item in topics.values()
    ):
        raise InvalidFieldError(f"{field} must map topic names to [topic_id, partitions]", row)
    for name, (_, partitions) in topics.items():
        if not is_topic_name(name):
            raise InvalidFieldError(f"{field} has the invalid topic name {name[:MAX_TOPIC_NAME_LENGTH]!r}", row)
        if partitions > MAX_TOPIC_PARTITIONS:
            raise InvalidFieldError(f"{name} has {partitions} partitions, more than {MAX_TOPIC_PARTITIONS}", row)
    if sum(partitions for _, partitions in topics.values()) > MAX_PARTITIONS:
        raise InvalidFieldError(f"topics have more than {MAX_PARTITIONS} partitions together", row)
    return {name: TopicMetadata(topic_id, partitions) for name, (topic_id, partitions) in topics.items()}


def share_partitions(row: Mapping[str, Any], field: str) -> tuple[tuple[str, int, int], ...]:
    """Parse [[topic_id, partition, state_epoch], ...]."""
    items = row.get(field, [])
    if not _are_triples(items) or not all(is_integer(number, 0, MAX_INT32) for item in items for number in item[1:]):
        raise InvalidFieldError(f"{field} must be a list of [topic_id, partition, state_epoch]", row)
    return tuple((topic_id, partition, state_epoch) for topic_id, partition, state_epoch in items)


def topic_ids(row: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Parse [topic_id, ...]. The list must not be empty."""
    ids = row.get(field)
    if not isinstance(ids, list) or not ids or not all(_is_short(topic_id) for topic_id in ids):
        raise InvalidFieldError(f"{field} must be a list of topic ids", row)
    return tuple(ids)


def start_offsets(row: Mapping[str, Any], field: str) -> tuple[StartOffset, ...]:
    """Parse [[topic, partition, start_offset], ...]. The list must not be empty.

    This function does not check that the offsets may be altered.
    """
    items = row.get(field)
    if (
        not _are_triples(items)
        or not items
        or not all(
            is_integer(item[1], -MAX_INT32, MAX_INT32) and is_integer(item[2], -MAX_OFFSET, MAX_OFFSET)
            for item in items
        )
    ):
        raise InvalidFieldError(f"{field} must be a list of [topic, partition, start_offset]", row)
    _check_lengths(row, field, (item[0] for item in items))
    return tuple(StartOffset(topic, partition, offset) for topic, partition, offset in items)


def configs(row: Mapping[str, Any], field: str) -> dict[str, str | None]:
    """Parse {config name: value}. A value is a string, or null if the config is to be removed."""
    values = row.get(field)
    if not isinstance(values, dict) or not all(value is None or isinstance(value, str) for value in values.values()):
        raise InvalidFieldError(f"{field} must map names to strings or null", row)
    if not all(_is_short(name) and (value is None or _is_short(value)) for name, value in values.items()):
        raise InvalidFieldError(f"a name or value of configs has more than {MAX_TEXT_LENGTH} characters", row)
    return dict(values)


def topic_names(row: Mapping[str, Any], field: str, alternative: str = "") -> tuple[str, ...]:
    """Parse [topic, ...]. Raises InvalidFieldError for another format.

    `alternative` is appended to the error message. It names what the field may be instead, such as " or null".
    """
    names = row.get(field)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidFieldError(f"{field} must be a list of topic names{alternative}", row)
    _check_lengths(row, field, names)
    return tuple(names)


def _check_lengths(row: Mapping[str, Any], field: str, names: Iterable[str]) -> None:
    if any(len(name) > MAX_TOPIC_NAME_LENGTH for name in names):
        raise InvalidFieldError(f"a topic name of {field} has more than {MAX_TOPIC_NAME_LENGTH} characters", row)


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH


def _are_triples(items: object) -> bool:
    return isinstance(items, list) and all(
        isinstance(item, list) and len(item) == 3 and isinstance(item[0], str) for item in items
    )
