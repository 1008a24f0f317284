"""Entries of requests that are refused in their place: topics with their partitions, and any other list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passing.rights import Need, Rights
from sharegroup.gateway.passing.rule import Case
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

#: Why an entry is refused, None where it is not.
Refusal = Callable[[Any], ErrorCode | None]
Refused = list[tuple[Any, ErrorCode]]


def split(items: Iterable[Any], refusal: Refusal) -> tuple[list[Any], Refused]:
    """(what is allowed, what is refused with its error code)"""
    kept: list[Any] = []
    refused: Refused = []
    for item in items:
        code = refusal(item)
        if code is None:
            kept.append(item)
        else:
            refused.append((item, code))
    return kept, refused


def add(response: Any, name: str, items: list[Any]) -> None:
    """Put more at the end of a list of the response; lists that were not given are all one, and stay as they are."""
    setattr(response, name, [*(getattr(response, name) or ()), *items])


def refuse_entries(
    case: Case, asked: str, refusal: Refusal, answered: str, answer: Callable[[Any, ErrorCode], Any]
) -> None:
    """Refuse entries of the list `asked` of a request: each has an `answer` in the list `answered` of the response."""
    kept, refused = split(getattr(case.body, asked) or (), refusal)
    if refused:
        answers = [answer(item, code) for item, code in refused]
        case.keep(case.body, asked, kept)
        case.passes = bool(kept)  # an empty list may mean all
        case.change(lambda response: add(response, answered, answers))


def element(container: Any, name: str) -> Any:
    """The class of the entries of a list of structs, by kafka-python's schema of the class that has it."""
    return container._struct.fields[name].array_of.data_class


def topic_name(topic: Any, version: int, name: str, rights: Rights) -> str | None:
    """A topic's name, which may be told by its id; None for an id that is not known."""
    by_id = type(topic)._struct.fields.get("topic_id")
    if by_id is not None and by_id.for_version_q(version) and not getattr(topic, name):
        return rights.topic_name(topic.topic_id)
    return str(getattr(topic, name))


@dataclass(frozen=True)
class TopicLists:
    """Where a request has topics with partitions, and its response an error for each partition.

    `container` is the class with the response's list `answered`. `index` is the partition's number in the request,
    "" where there is nothing but the number. `blank`: what a refused partition has in its other fields, if that is
    not their default.
    """

    container: type[DataContainer]
    asked: str = "topics"
    name: str = "name"
    partitions: str = "partitions"
    index: str = "partition_index"
    answered: str = "topics"
    answered_name: str = "name"
    answered_partitions: str = "partitions"
    answered_index: str = "partition_index"
    error: str = "error_code"
    blank: Mapping[str, object] = field(default_factory=dict)

    def refusal(self, case: Case, need: Need) -> Refusal:
        """What is refused of the topics for want of a right on them; ids that nobody knows are refused, too."""

        def refuse(topic: Any) -> ErrorCode | None:
            name = topic_name(topic, case.version, self.name, case.rights)
            return ErrorCode.UNKNOWN_TOPIC_ID if name is None else case.rights.refusal(need, name)

        return refuse

    def take_out(self, case: Case, refusal: Refusal) -> None:
        """Refuse topics of a request; without any other nothing passes."""
        refuse_entries(case, self.asked, refusal, self.answered, self.answer)

    def answers(self, topics: Sequence[Any], code: ErrorCode) -> list[Any]:
        """The same error for all."""
        return [self.answer(topic, code) for topic in topics]

    def answer(self, topic: Any, code: ErrorCode) -> Any:
        """A topic of the response, with the error for each partition of the request."""
        topic_class = element(self.container, self.answered)
        partition_class = element(topic_class, self.answered_partitions)
        asked = getattr(topic, self.partitions)
        numbers = [getattr(each, self.index) for each in asked] if self.index else asked
        fields: dict[str, object] = {
            self.answered_name: getattr(topic, self.name),
            self.answered_partitions: [
                partition_class(**{self.answered_index: number, self.error: int(code), **self.blank})
                for number in numbers
            ],
        }
        if "topic_id" in topic_class._struct.fields:
            fields["topic_id"] = topic.topic_id or NO_TOPIC_ID
        return topic_class(**fields)
