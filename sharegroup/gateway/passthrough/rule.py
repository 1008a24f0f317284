"""Rules of forwarded APIs. A rule defines the required rights, and the response to a rejected request."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.passthrough.rights import Need, RequestRights
from sharegroup.security.acl import CLUSTER_NAME, Resource


class RequestUnderCheck:
    """A request that is being checked by the rule of its API, with the caller's rights and the result of the check.

    Attributes:
        body: the decoded request, from which the rule removes rejected entries.
        is_forwarded: whether the request is sent to the broker.
        is_changed: whether the request must be encoded again before it is sent.
        changes: functions that change the broker's response, for example to add the errors of rejected entries. If the
            request is not forwarded, they fill in an empty response.
    """

    def __init__(self, body: Any, version: int, rights: RequestRights, is_changed: bool = False) -> None:
        self.body, self.version, self.rights = body, version, rights
        self.is_forwarded, self.is_changed = True, is_changed
        self.changes: list[Callable[[Any], None]] = []

    def retain_entries(self, item: Any, field: str, kept: list[Any]) -> None:
        """Replace the list in a field of `item` by `kept`, its allowed entries.

        `item` is the request or a part of it. If all entries are allowed, nothing changes.
        """
        if len(kept) < len(getattr(item, field)):
            setattr(item, field, kept)
            self.is_changed = True

    def add_response_change(self, change: Callable[[Any], None]) -> None:
        self.changes.append(change)

    def reject(self, answer: Callable[[Any], None]) -> None:
        """Reject the whole request, so that nothing is sent to the broker. `answer` fills an empty response.

        Changes of the response that were added before are discarded.
        """
        self.is_forwarded = False
        self.changes = [answer]

    def reject_whole(self, code: ErrorCode) -> None:
        """Reject the whole request. The top-level error of the response is set to `code`."""
        self.reject(lambda response: set_error(response, code))


RequestCheck = Callable[[RequestUnderCheck], None]


@dataclass(frozen=True)
class Rule:
    """The rule of one API.

    Attributes:
        error_place: the part of the response that contains the error, as text for docs/security.md.
        check: authorizes a request; if it is None, every request is forwarded.
        request: the class of the request; None if the rule does not decode it.
        response: the class of the response; None if the rule never creates one.
        names_topics: whether requests must be decoded even without ACLs, to hide internal topics of the job.
        newest_version: the newest version for clients, if only brokers use later ones; None means the newest version
            of the request class.
    """

    name: str
    api_key: int
    needs: tuple[Need, ...]
    error_place: str
    check: RequestCheck | None = None
    request: type[ApiMessage] | None = None
    response: type[ApiMessage] | None = None
    names_topics: bool = False
    newest_version: int | None = None

    @property
    def versions(self) -> tuple[int, int] | None:
        """The supported versions as (oldest, newest); None if all versions of the broker are supported."""
        message = self.request or self.response
        if message is None:
            return None
        oldest, newest = message.valid_versions
        return oldest, newest if self.newest_version is None else self.newest_version


def make_rule(
    message: type[ApiMessage],
    needs: tuple[Need, ...],
    answer: str,
    judge: RequestCheck,
    names_topics: bool | None = None,
    newest_version: int | None = None,
) -> Rule:
    """Return the rule of an API.

    `message` is the class of the request. If the rule does not decode requests, it is the class of the response.
    `judge` authorizes a request (`Rule.check`). `needs` are the rights that `judge` requires, as listed in
    docs/security.md. `answer` is a text about the part of the response that contains errors (`Rule.error_place`). By
    default, `names_topics` is True if one of the `needs` is a right on a topic.
    """
    if names_topics is None:
        names_topics = any(need.resource is Resource.TOPIC for need in needs)
    request, response = (message, _response_of(message)) if message.is_request() else (None, message)
    name = response.__name__.removesuffix("Response")
    return Rule(name, int(message.API_KEY), needs, answer, judge, request, response, names_topics, newest_version)


def _response_of(request: type[ApiMessage]) -> type[ApiMessage]:
    """Return the class of the response to a request, from the module of `request`, by Kafka's name of the response."""
    name = request.__name__.removesuffix("Request") + "Response"
    response: type[ApiMessage] = getattr(sys.modules[request.__module__], name)
    return response


def make_whole_request_rule(message: type[ApiMessage], wanted: dict[Need, str]) -> Rule:
    """Return a rule that allows or rejects a whole request. It requires all rights in `wanted`.

    `message` is as in `make_rule`, and `wanted` as in `first_error`. If the rule does not decode requests, `wanted` has
    only rights on the cluster.
    """

    def judge(case: RequestUnderCheck) -> None:
        code = first_error(case, wanted)
        if code is not None:
            case.reject_whole(code)

    return make_rule(message, tuple(wanted), "the response", judge, names_topics=False)


def first_error(case: RequestUnderCheck, wanted: dict[Need, str]) -> ErrorCode | None:
    """Return the error for the first right in `wanted` that the caller lacks, else None.

    `wanted` is {right: field of the request that contains the resource name}. For a right on the cluster, the field is
    "".
    """
    for need, field in wanted.items():
        code = case.rights.authorize(need, getattr(case.body, field) if field else CLUSTER_NAME)
        if code is not None:
            return code
    return None


def set_error(response: Any, code: ErrorCode) -> None:
    """Set the top-level error of a response."""
    response.error_code = int(code)
