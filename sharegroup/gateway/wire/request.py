"""A decoded request on its way to a handler, and who sent it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sharegroup.gateway.wire.headers import RequestHeader


@dataclass(frozen=True, slots=True)
class Caller:
    """The connection a request came by: its id, the upstream broker whose port it is, host and principal."""

    connection_id: int
    node_id: int
    host: str
    principal: str = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Request:
    """`body` is an instance of kafka-python's (or our) message class, in the client's version."""

    header: RequestHeader
    body: Any
    caller: Caller

    @property
    def version(self) -> int:
        """The API version, which is the response's as well."""
        return self.header.api_version


#: A handler returns the response message; it is encoded in the request's version.
Handler = Callable[[Request], Awaitable[Any]]
