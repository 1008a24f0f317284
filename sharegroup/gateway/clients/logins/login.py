"""The login of one connection: the steps of its SASL, away from the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.sasl import SaslAuthenticateRequest

from sharegroup.gateway.acting.acting_logins import ActingClient, ActingLogins
from sharegroup.gateway.clients.logins.login_turns import THREADS, LoginTurns
from sharegroup.gateway.clients.logins.sasl_server import SaslServer, SaslState
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import MalformedRequestError
from sharegroup.security import Security, audit
from sharegroup.security.authentication.oauth_bearer import OAUTHBEARER
from sharegroup.security.caller import Caller

#: Logins that wait for the brokers at the same time, which takes no processor here.
PASSED_ON_THREADS = 16

T = TypeVar("T")
U = TypeVar("U")


def time_ms() -> int:
    """Milliseconds since the epoch, as tokens have them."""
    return time.time_ns() // 1_000_000


class Logins:
    """What the logins of all connections share: users and keys, and the turns in which what clients send is checked.

    `failed_delay_s` is Kafka's `connection.failed.authentication.delay.ms`: who guesses passwords is to take his time;
    `max_reauth_ms` is its `connections.max.reauth.ms`.
    With `acting` the brokers judge the logins, and their clients act there as themselves.
    """

    def __init__(
        self,
        security: Security,
        failed_delay_s: float,
        max_reauth_ms: int = 0,
        now_ms: Callable[[], int] = time_ms,
        acting: ActingLogins | None = None,
    ) -> None:
        self.mechanisms, self._acting = security.logins, acting
        self._max_reauth_ms, self.now_ms = max_reauth_ms, now_ms
        self.turns = LoginTurns(failed_delay_s, THREADS if acting is None else PASSED_ON_THREADS)
        self._looking: asyncio.Task[None] | None = None

    def begin(self, node_id: int) -> Login:
        """The login of a new connection to a broker's port."""
        if self._acting is not None:
            acting = self._acting.begin(node_id)
            return Login(self, SaslServer(acting.mechanisms, self._max_reauth_ms), acting)
        if not self.mechanisms:
            return Login(self, None)
        return Login(self, SaslServer(self.mechanisms.enabled, self._max_reauth_ms))

    async def look_for_keys(self) -> None:
        """Look whether there are new keys of tokens; however many ask, it is done once."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(self.mechanisms.look_for_keys))
        await asyncio.shield(self._looking)

    def close(self) -> None:
        """Begin no more steps; those that are being checked are not waited for."""
        self.turns.close()


class Login:
    """Takes a client through its login, and writes the audit of it.

    Without `sasl` it is authenticated from the start, as nobody in particular. `acting` is who acts at the brokers
    then, where that is not the gateway.
    """

    def __init__(self, shared: Logins, sasl: SaslServer | None, acting: ActingClient | None = None) -> None:
        self._shared, self._sasl, self._acting = shared, sasl, acting

    @property
    def upstream_settings(self) -> ClientSettings | None:
        """kafka-python's, for the client's own links to the brokers; None where the gateway acts there."""
        return None if self._acting is None else self._acting.settings

    async def with_rights(self, request: Request[U]) -> Request[U]:
        """The request with what its caller may do by the brokers' word, where that counts.

        Raises UpstreamUnavailableError.
        """
        if self._acting is None:
            return request
        rights = await self._acting.rights(request.body, request.version)
        return replace(request, caller=replace(request.caller, rights=rights))

    def close(self) -> None:
        """The client is gone."""
        if self._acting is not None:
            self._acting.close()

    @property
    def is_asked_for(self) -> bool:
        """Whether clients have to log in."""
        return self._sasl is not None

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in, or need not."""
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
        """Raises MalformedRequestError for a request that has to wait for the login, or for the next one."""
        if self._sasl is None or self._sasl.allows(api_key, self._shared.now_ms()):
            return
        when = "before authentication" if self._sasl.state is not SaslState.AUTHENTICATED else "after its session's end"
        raise MalformedRequestError(f"request {api_key} {when}")

    def has_part_in(self, api_key: int) -> bool:
        """Whether it is a request for `answer`."""
        return self._sasl is not None and self._sasl.is_sasl(api_key)

    async def answer(self, request: Request[ApiMessage]) -> ApiMessage:
        """The response to a SaslHandshake or SaslAuthenticate."""
        assert self._sasl is not None
        body = request.body
        if isinstance(body, SaslAuthenticateRequest):
            await self._find_key(bytes(body.auth_bytes or b""))
        return await self._step(self._sasl.handle, request, request.caller)

    async def answer_bare(self, message: bytes, caller: Caller) -> bytes:
        """The answer to a bare message; where the login has failed then, there is none."""
        assert self._sasl is not None
        await self._find_key(message)
        return await self._step(self._sasl.bare_message, message, caller)

    async def _find_key(self, message: bytes) -> None:
        """A token may be signed by a key that its issuer has made since keys were read."""
        assert self._sasl is not None
        if self._sasl.mechanism == OAUTHBEARER and self._shared.mechanisms.lacks_key(message):
            await self._shared.look_for_keys()

    async def _step(self, step: Callable[[T, int], U], said: T, caller: Caller) -> U:
        """To check a password takes milliseconds, which all connections would wait for."""
        sasl = self._sasl
        assert sasl is not None
        before = sasl.state
        checked = partial(step, said, self._shared.now_ms())
        answer = await self._shared.turns.run(caller.host, checked, lambda: sasl.has_failed)
        if sasl.has_failed:
            audit.login_refused(caller.host, sasl.mechanism, sasl.claimed, sasl.refusal)
        elif sasl.state is SaslState.AUTHENTICATED and before is not SaslState.AUTHENTICATED:
            audit.login_accepted(replace(caller, principal=sasl.principal or ""), sasl.mechanism)
        return answer
