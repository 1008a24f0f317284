"""The login of one connection: the steps of its SASL, away from the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.clients.login_turns import LoginTurns
from sharegroup.gateway.security import Security
from sharegroup.gateway.security.sasl_server import SaslServer
from sharegroup.gateway.wire.headers import MalformedRequestError
from sharegroup.gateway.wire.request import Request

T = TypeVar("T")


class Logins:
    """What the logins of all connections share: the users, and the turns in which their passwords are checked.

    `failed_delay_s` is Kafka's `connection.failed.authentication.delay.ms`: who guesses passwords is to take his time.
    """

    def __init__(self, security: Security, failed_delay_s: float) -> None:
        self._security, self._turns = security, LoginTurns(failed_delay_s)

    def begin(self) -> Login:
        """The login of a new connection."""
        return Login(self._security.authenticator(), self._turns)

    def close(self) -> None:
        """Begin no more steps; those that are being checked are not waited for."""
        self._turns.close()


class Login:
    """Takes a client through its login. Without `sasl` it is authenticated from the start, as nobody in particular."""

    def __init__(self, sasl: SaslServer | None, turns: LoginTurns) -> None:
        self._sasl, self._turns = sasl, turns

    @property
    def is_asked_for(self) -> bool:
        """Whether clients have to log in."""
        return self._sasl is not None

    @property
    def is_authenticated(self) -> bool:
        """Whether any request is allowed."""
        return self._sasl is None or self._sasl.is_authenticated

    @property
    def has_failed(self) -> bool:
        """Whether the connection is to be closed, after the answer."""
        return self._sasl is not None and self._sasl.has_failed

    @property
    def principal(self) -> str | None:
        """Who has logged in; None before that."""
        return None if self._sasl is None else self._sasl.principal

    @property
    def takes_bare_messages(self) -> bool:
        """Whether what comes next is no request but a message of SASL."""
        return self._sasl is not None and self._sasl.takes_bare_messages

    def check_allowed(self, api_key: int) -> None:
        """Raises MalformedRequestError for a request that has to wait for the login."""
        if self._sasl is not None and not self._sasl.allows(api_key):
            raise MalformedRequestError(f"request {api_key} before authentication")

    def has_part_in(self, api_key: int) -> bool:
        """Whether it is a request for `answer`."""
        return self._sasl is not None and self._sasl.is_sasl(api_key)

    async def answer(self, request: Request[ApiMessage]) -> ApiMessage:
        """The response to a SaslHandshake or SaslAuthenticate."""
        assert self._sasl is not None
        return await self._step(request.caller.host, partial(self._sasl.handle, request))

    async def answer_bare(self, message: bytes, address: str) -> bytes:
        """The answer to a bare message of the client at `address`; where the login has failed then, there is none."""
        assert self._sasl is not None
        return await self._step(address, partial(self._sasl.bare_message, message))

    async def _step(self, address: str, step: Callable[[], T]) -> T:
        return await self._turns.run(address, step, lambda: self.has_failed)
