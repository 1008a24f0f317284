"""The sender of a request, and its rights at the brokers."""

from dataclasses import dataclass, field
from typing import Protocol


class CallerRights(Protocol):
    """The rights of a caller at the brokers."""

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Return whether an operation is allowed, given Kafka's number of the operation and the resource type."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The connection of a request: its id, the upstream broker of its port, the client's host and principal.

    `is_standby`: the port is for clients of other gateways, and any broker may serve the request. `api` is the name of
    the requested API, "" before the first request. `rights` are those of the brokers, if they apply.
    """

    connection_id: int
    node_id: int
    host: str
    principal: str = "User:ANONYMOUS"
    is_standby: bool = False
    api: str = ""
    rights: CallerRights | None = field(default=None, compare=False, repr=False)
