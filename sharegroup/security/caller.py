"""Who sent a request, and what the brokers let it do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


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
