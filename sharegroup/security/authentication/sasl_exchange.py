"""What every SASL mechanism is to the login: an exchange of messages that ends with a user or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from sharegroup.errors import ShareGroupError


class LoginRefusedError(ShareGroupError):
    """The login is refused. The error's text is for the client; `reason` is for the audit, and has no secret in it."""

    def __init__(self, told: str, reason: str = "") -> None:
        super().__init__(told)
        self.reason = reason or told


class Answer(NamedTuple):
    """The mechanism's next message to the client.

    With a `user` the client is authenticated: until `valid_until_ms` (ms since the epoch), None: for good.
    """

    message: bytes
    user: str | None = None
    valid_until_ms: int | None = None


class Exchange(Protocol):
    """One login by one mechanism."""

    #: Who the client says it is, once it has said so.
    claimed: str

    @property
    def max_message_bytes(self) -> int:
        """Longer messages are none of the mechanism's."""

    def respond(self, message: str) -> Answer:
        """The client's next message. Raises LoginRefusedError."""


#: {mechanism: what begins its exchange}, in the order in which clients are told of them.
Mechanisms = Mapping[str, Callable[[], Exchange]]
