"""A decoded request on its way to a handler, and who sent it.

Messages are of kafka-python's classes, whose fields have types, or of ours (`sharegroup.protocol.messages`), which are
made of Kafka's schemas while the program starts: theirs are `Any`, and so is all that nests in them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.wire.headers import RequestHeader


@dataclass(frozen=True, slots=True)
class Caller:
    """The connection a request came by: its id, the upstream broker whose port it is, host and principal.

    `api` is the name of the API that is asked for, "" before there is a request.
    """

    connection_id: int
    node_id: int
    host: str
    principal: str = "User:ANONYMOUS"
    api: str = ""


#: (By name, since kafka-python's class cannot be asked whether it is true.)
Body = TypeVar("Body", bound="ApiMessage", covariant=True)


@dataclass(frozen=True, slots=True)
class Request(Generic[Body]):
    """`body` is the message, in the client's version."""

    header: RequestHeader
    body: Body
    caller: Caller

    @property
    def version(self) -> int:
        """The API version, which is the response's as well."""
        return self.header.api_version


#: A handler returns the response message; it is encoded in the request's version.
Handler = Callable[[Request[Any]], Awaitable[ApiMessage]]
#: The class of a request, and who answers it.
Route = tuple[type[ApiMessage], Handler]
