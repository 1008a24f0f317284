"""The sender of a request, and its rights at the brokers."""

from dataclasses import dataclass, field
from typing import Protocol


class CallerRights(Protocol):
    """The rights of a caller at the brokers."""

    def allows(self, operation: int, resource: str, name: str) -> bool:
        """Return whether the caller may perform an operation (Kafka's number) on a resource (type and name)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    Attributes:
        connection_id: The id of the client's connection to the gateway.
        node_id: The id of the upstream broker whose port the client is connected to.
        host: The client's address.
        principal: The client's user, with Kafka's prefix `User:`.
        is_standby: Whether the client is connected to the standby port, which clients of other gateways use if their
            own gateway has failed. This port stands for no broker; `node_id` is then the first known broker.
        api: The name of the requested API, "" before the first request.
        rights: The client's rights at the brokers, None if only the access control list applies.
    """

    connection_id: int
    node_id: int
    host: str
    principal: str = "User:ANONYMOUS"
    is_standby: bool = False
    api: str = ""
    rights: CallerRights | None = field(default=None, compare=False, repr=False)
