"""Entries of requests that are rejected one by one: topics with their partitions, and other lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough.rights import Need, RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

#: Returns the error of an entry, None if the entry is allowed.
EntryCheck = Callable[[Any], ErrorCode | None]
RejectedEntries = list[tuple[Any, ErrorCode]]


def split_rejected(items: Iterable[Any], check: EntryCheck) -> tuple[list[Any], RejectedEntries]:
    """Return (allowed entries, rejected entries with their error codes)."""
    allowed: list[Any] = []
    rejected: RejectedEntries = []
    for item in items:
        code = check(item)
        if code is None:
            allowed.append(item)
        else:
            rejected.append((item, code))
    return allowed, rejected


def append_entries(response: Any, name: str, items: list[Any]) -> None:
    """Append items to a list of the response. The list is replaced, because kafka-python shares one default list."""
    setattr(response, name, [*(getattr(response, name) or ()), *items])


def reject_entries(
    case: RequestUnderCheck,
    request_field: str,
    check: EntryCheck,
    response_field: str,
    make_error: Callable[[Any, ErrorCode], Any],
) -> None:
    """Remove the rejected entries from a list of the request, and append their errors to a list of the response."""
    allowed, rejected = split_rejected(getattr(case.body, request_field) or (), check)
    if rejected:
        errors = [make_error(item, code) for item, code in rejected]
        case.retain_entries(case.body, request_field, allowed)
        case.is_forwarded = bool(allowed)  # brokers may read an empty list as "all"
        case.add_response_change(lambda response: append_entries(response, response_field, errors))


def entry_class(container: Any, name: str) -> Any:
    """Return the class of the entries of a list field, from kafka-python's schema of `container`."""
    return container._struct.fields[name].array_of.data_class


def topic_name(topic: Any, version: int, name: str, rights: RequestRights) -> str | None:
    """Return a topic's name, which the request may give by id; None if the id is unknown."""
    by_id = type(topic)._struct.fields.get("topic_id")
    if by_id is not None and by_id.for_version_q(version) and not getattr(topic, name):
        return rights.topic_name(topic.topic_id)
    return str(getattr(topic, name))


@dataclass(frozen=True)
class TopicFields:
    """The fields that hold topics with partitions in a request, and the matching fields in its response.

    `container` is the class that has the response's list. `index` is the field of the partition number in the
    request, "" if partitions are plain numbers. `blank` has the values of a rejected partition's other fields that
    differ from their defaults.
    """

    container: type[DataContainer]
    request_topics: str = "topics"
    name: str = "name"
    partitions: str = "partitions"
    index: str = "partition_index"
    response_topics: str = "topics"
    response_name: str = "name"
    response_partitions: str = "partitions"
    response_index: str = "partition_index"
    error: str = "error_code"
    blank: Mapping[str, object] = field(default_factory=dict)

    def topic_check(self, case: RequestUnderCheck, need: Need) -> EntryCheck:
        """Return a check that requires a right on each topic. Unknown topic ids are rejected with UNKNOWN_TOPIC_ID."""

        def check(topic: Any) -> ErrorCode | None:
            name = topic_name(topic, case.version, self.name, case.rights)
            return ErrorCode.UNKNOWN_TOPIC_ID if name is None else case.rights.authorize(need, name)

        return check

    def reject_topics(self, case: RequestUnderCheck, check: EntryCheck) -> None:
        """Remove the rejected topics from the request. A request without other topics is not forwarded."""
        reject_entries(case, self.request_topics, check, self.response_topics, self.topic_error)

    def topic_errors(self, topics: Sequence[Any], code: ErrorCode) -> list[Any]:
        """Return a response entry with the same error for each topic."""
        return [self.topic_error(topic, code) for topic in topics]

    def topic_error(self, topic: Any, code: ErrorCode) -> Any:
        """Return a topic of the response that has the error for each partition of the request."""
        topic_class = entry_class(self.container, self.response_topics)
        partition_class = entry_class(topic_class, self.response_partitions)
        asked = getattr(topic, self.partitions)
        numbers = [getattr(each, self.index) for each in asked] if self.index else asked
        fields: dict[str, object] = {
            self.response_name: getattr(topic, self.name),
            self.response_partitions: [
                partition_class(**{self.response_index: number, self.error: int(code), **self.blank})
                for number in numbers
            ],
        }
        if "topic_id" in topic_class._struct.fields:
            fields["topic_id"] = topic.topic_id or NO_TOPIC_ID
        return topic_class(**fields)
