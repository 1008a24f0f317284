"""Rejects single entries of a request: topics with their partitions, and entries of other lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough.rights import Need, RequestRights
from sharegroup.gateway.passthrough.rule import RequestUnderCheck
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

#: A function that returns the error of an entry, or None if the entry is allowed.
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
    """Append `items` to the list in the field `name` of the response.

    The field gets a new list, because kafka-python uses the same default list for all responses.
    """
    setattr(response, name, [*(getattr(response, name) or ()), *items])


def reject_entries(
    case: RequestUnderCheck,
    request_field: str,
    check: EntryCheck,
    response_field: str,
    make_error: Callable[[Any, ErrorCode], Any],
) -> None:
    """Remove each entry for which `check` returns an error from the list `request_field` of the request.

    For each removed entry, the result of `make_error` is appended to the list `response_field` of the response. If all
    entries are removed, the request is not forwarded.
    """
    allowed, rejected = split_rejected(getattr(case.body, request_field) or (), check)
    if rejected:
        errors = [make_error(item, code) for item, code in rejected]
        case.retain_entries(case.body, request_field, allowed)
        case.is_forwarded = bool(allowed)  # brokers may read an empty list as "all"
        case.add_response_change(lambda response: append_entries(response, response_field, errors))


def entry_class(container: Any, name: str) -> Any:
    """Return the class of the entries in the list field `name` of `container`, from kafka-python's schema."""
    return container._struct.fields[name].array_of.data_class


def topic_name(topic: Any, version: int, name: str, rights: RequestRights) -> str | None:
    """Return the name of a topic in a request or response; None if it is identified by an unknown topic id.

    `version` is the version of the message. `name` is the field of `topic` that contains the topic name.
    """
    by_id = type(topic)._struct.fields.get("topic_id")
    if by_id is not None and by_id.for_version_q(version) and not getattr(topic, name):
        return rights.topic_name(topic.topic_id)
    return str(getattr(topic, name))


@dataclass(frozen=True)
class TopicFields:
    """The names of the fields that contain topics and partitions, in a request and in its response.

    `request_topics`, `name` and `partitions` are fields of the request. Attributes that begin with `response_` are
    fields of the response.

    Attributes:
        container: the class of the response, or of the part of the response that has the list of topics.
        index: the field with the partition number in the request; empty if the partitions are plain numbers.
        error: the field with the error code of a partition in the response.
        blank: {response field: value} to set for a rejected partition, where the field's default would be wrong.
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
        """Return a check that requires the right `need` on a topic. It rejects unknown topic ids (UNKNOWN_TOPIC_ID)."""

        def check(topic: Any) -> ErrorCode | None:
            name = topic_name(topic, case.version, self.name, case.rights)
            return ErrorCode.UNKNOWN_TOPIC_ID if name is None else case.rights.authorize(need, name)

        return check

    def reject_topics(self, case: RequestUnderCheck, check: EntryCheck) -> None:
        """Remove each topic for which `check` returns an error from the request, and add the error to the response.

        If no topic is left, the request is not forwarded.
        """
        reject_entries(case, self.request_topics, check, self.response_topics, self.topic_error)

    def topic_errors(self, topics: Sequence[Any], code: ErrorCode) -> list[Any]:
        """Return response entries for topics of the request, all with the same error."""
        return [self.topic_error(topic, code) for topic in topics]

    def topic_error(self, topic: Any, code: ErrorCode) -> Any:
        """Return the response entry for a topic of the request, with the error for each of its partitions."""
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
