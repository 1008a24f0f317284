"""A decoded request on its way to a handler.

Messages are of kafka-python's classes, whose fields have types, or of ours (`sharegroup.protocol.messages`), which are
made of Kafka's schemas while the program starts: theirs are `Any`, and so is all that nests in them. ShareFetch and
ShareAcknowledge come as tuples (`share_request_decoding`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.headers import AnyResponse, RequestHeader
from sharegroup.security.caller import Caller

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
