"""What a rule says of an API that passes through: what it needs, and what becomes of a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.passing.rights import Need, Rights
from sharegroup.security.acl import Resource


class Case:
    """One request before its rule: what is asked, what the caller may do, and what becomes of it.

    A rule takes what is refused out of `body`, and says how the response has it. `passes`: whether the request goes to
    a broker. `is_changed`: not as it came. `changes` are made to the response, the broker's or, where nothing passes,
    an empty one.
    """

    def __init__(self, body: Any, version: int, rights: Rights, is_changed: bool = False) -> None:
        self.body, self.version, self.rights = body, version, rights
        self.passes, self.is_changed = True, is_changed
        self.changes: list[Callable[[Any], None]] = []

    def keep(self, item: Any, field: str, kept: list[Any]) -> None:
        """Leave these in a list of the request."""
        if len(kept) < len(getattr(item, field)):
            setattr(item, field, kept)
            self.is_changed = True

    def change(self, change: Callable[[Any], None]) -> None:
        """Have the response changed on its way to the client."""
        self.changes.append(change)

    def refuse(self, answer: Callable[[Any], None]) -> None:
        """Send nothing to the broker: the response is this change to an empty one."""
        self.passes = False
        self.changes = [answer]


Judge = Callable[[Case], None]


@dataclass(frozen=True)
class Rule:
    """An API. `answer` says how a refusal is answered, for the page; without `judge` every request passes.

    `request` is None where the rule need not read it, `response` where it has none to give. `names_topics`: also
    without a list, the job's own topics have to be kept out. `newest_version` is the newest one that clients need, None
    for the newest that is known.
    """

    name: str
    api_key: int
    needs: tuple[Need, ...]
    answer: str
    judge: Judge | None = None
    request: type[ApiMessage] | None = None
    response: type[ApiMessage] | None = None
    names_topics: bool = False
    newest_version: int | None = None

    @property
    def versions(self) -> tuple[int, int] | None:
        """The versions that are known here, None for all that a broker may have."""
        message = self.request or self.response
        if message is None:
            return None
        oldest, newest = message.valid_versions
        return oldest, newest if self.newest_version is None else self.newest_version


def rule(
    request: type[ApiMessage] | None,
    response: type[ApiMessage],
    needs: tuple[Need, ...],
    answer: str,
    judge: Judge,
    names_topics: bool | None = None,
    newest_version: int | None = None,
) -> Rule:
    """A rule named after its messages; topics are in it where it needs something on one, unless that is said."""
    if names_topics is None:
        names_topics = any(need.resource is Resource.TOPIC for need in needs)
    name = response.__name__.removesuffix("Response")
    return Rule(name, int(response.API_KEY), needs, answer, judge, request, response, names_topics, newest_version)
