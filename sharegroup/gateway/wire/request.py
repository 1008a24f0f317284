"""A decoded request on its way to a handler, and who sent it.

Messages are of kafka-python's classes, whose fields have types, or of ours (`sharegroup.protocol.messages`), which are
made of Kafka's schemas while the program starts: theirs are `Any`, and so is all that nests in them. ShareFetch and
ShareAcknowledge come as tuples (`share_request_decoding`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.headers import AnyResponse, RequestHeader


class CallerRights(Protocol):
    """What a caller may do by the brokers' word."""

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Whether the caller may do it, by Kafka's number of the operation and the kind of the resource."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The connection a request came by: its id, the upstream broker whose port it is, host and principal.

    `is_standby`: it came to the port for clients of other gateways, and the broker is any. `api` is the name of the API
    that is asked for, "" before there is a request. `rights` are the brokers' own, where they count.
    """

    connection_id: int
    node_id: int
    host: str
    principal: str = "User:ANONYMOUS"
    is_standby: bool = False
    api: str = ""
    rights: CallerRights | None = field(default=None, compare=False, repr=False)


Body = TypeVar("Body", covariant=True)


@dataclass(frozen=True, slots=True)
class Request(Generic[Body]):
    """`body` is the message, in the client's version; it may have a password in it, so no repr shows it."""

    header: RequestHeader
    body: Body = field(repr=False)
    caller: Caller

    @property
    def version(self) -> int:
        """The API version, which is the response's as well."""
        return self.header.api_version


_API_NAMES = {int(key): key.name for key in ApiKey}


def api_name(api_key: int) -> str:
    """Kafka's name of an API, or its number where that is not known here."""
    return _API_NAMES.get(api_key, str(api_key))


#: A handler returns the response message; it is encoded in the request's version.
Handler = Callable[[Request[Any]], Awaitable[AnyResponse]]
#: The class of a request, and who answers it.
Route = tuple[type[ApiMessage], Handler]
