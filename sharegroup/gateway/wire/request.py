"""A decoded request, which is passed to handlers.

Most messages are instances of kafka-python's classes, whose fields have types. Others are instances of the classes in
`sharegroup.protocol.messages`. These are created from Kafka's schemas at startup, so their fields have the type `Any`.
ShareFetch and ShareAcknowledge are tuples (`share_request_decoding`).
"""

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
    """A decoded request. `repr` omits `body`, because it may contain a password."""

    header: RequestHeader
    body: Body = field(repr=False)
    caller: Caller

    @property
    def version(self) -> int:
        """The API version of the request, and of its response."""
        return self.header.api_version


_API_NAMES = {int(key): key.name for key in ApiKey}


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, or its key as text if the name is unknown."""
    return _API_NAMES.get(api_key, str(api_key))


#: A function that handles a request. It returns the response message, which is encoded in the request's version.
Handler = Callable[[Request[Any]], Awaitable[AnyResponse]]
#: The class of a request, and its handler.
Route = tuple[type[ApiMessage], Handler]
