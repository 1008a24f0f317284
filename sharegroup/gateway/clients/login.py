"""The login of one connection: the steps of its SASL, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.gateway.security import Security
from sharegroup.gateway.security.sasl_server import SaslServer
from sharegroup.gateway.wire.headers import MalformedRequestError
from sharegroup.gateway.wire.request import Request

T = TypeVar("T")
U = TypeVar("U")

#: Passwords that are checked at the same time; the other logins wait, and nobody else with them.
LOGIN_THREADS = 2
#: Kafka's `connection.failed.authentication.delay.ms`: who guesses passwords is to take his time.
FAILED_LOGIN_DELAY_S = 0.1


class Logins:
    """What the logins of all connections share: the users, and the threads that check their passwords."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="login")

    def begin(self) -> Login:
        """The login of a new connection."""
        return Login(self._security.authenticator(), self._threads)

    def close(self) -> None:
        """Begin no more steps; those that are being checked are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Login:
    """Takes a client through its login. Without `sasl` it is authenticated from the start, as nobody in particular."""

    def __init__(self, sasl: SaslServer | None, threads: ThreadPoolExecutor) -> None:
        self._sasl, self._threads = sasl, threads

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
        return await self._step(self._sasl.handle, request)

    async def answer_bare(self, message: bytes) -> bytes:
        """The answer to a bare message; where the login has failed then, there is none."""
        assert self._sasl is not None
        return await self._step(self._sasl.bare_message, message)

    async def _step(self, step: Callable[[T], U], said: T) -> U:
        """To check a password takes milliseconds, which all connections would wait for."""
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, step, said)
        if self.has_failed:
            await asyncio.sleep(FAILED_LOGIN_DELAY_S)
        return answer
