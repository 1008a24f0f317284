"""The interface of SASL mechanisms: an exchange of messages that ends with a user or a rejection."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from sharegroup.errors import ShareGroupError


class LoginRejectedError(ShareGroupError):
    """The login is rejected. `message` is sent to the client. `reason`, which contains no secrets, is in the audit log.

    By default, `reason` is the message.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class ExchangeStep(NamedTuple):
    """The mechanism's next message to the client.

    If `user` is set, the client is authenticated as this user until `valid_until_ms` (ms since the epoch). If
    `valid_until_ms` is None, the login does not expire.
    """

    message: bytes
    user: str | None = None
    valid_until_ms: int | None = None


class Exchange(Protocol):
    """One login with a SASL mechanism."""

    #: The user name that the client has sent. It is empty before the client's first message was read.
    claimed: str

    @property
    def max_message_bytes(self) -> int:
        """The maximum size of a client's message, in bytes."""

    def respond(self, message: str) -> ExchangeStep:
        """Handle the client's next message, and return the answer. Raises LoginRejectedError to end the login."""


#: {mechanism: function that creates an exchange}, in the order of the handshake response.
Mechanisms = Mapping[str, Callable[[], Exchange]]
