"""The logins of client connections. The SASL steps run on threads, outside the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.sasl import SaslAuthenticateRequest

from sharegroup.gateway.client_identity.forwarded_logins import ClientIdentity, ForwardedLogins
from sharegroup.gateway.clients.logins.login_turns import THREADS, LoginTurns
from sharegroup.gateway.clients.logins.sasl_server import SaslServer, SaslState
from sharegroup.gateway.wire.request import Request, api_name
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import MalformedRequestError
from sharegroup.security import Security, audit
from sharegroup.security.authentication.oauth_bearer import OAUTHBEARER
from sharegroup.security.caller import Caller

#: Maximum number of concurrent logins that the brokers verify. The gateway needs hardly any CPU for such a login.
FORWARDED_LOGIN_THREADS = 16

T = TypeVar("T")
U = TypeVar("U")


def time_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Logins:
    """State that the logins of all connections share: users, keys, and the threads that check credentials.

    `failed_delay_s` is Kafka's `connection.failed.authentication.delay.ms`, in seconds. It slows down password
    guessing. `max_reauth_ms` is Kafka's `connections.max.reauth.ms`. If `forwarded_logins` is set, the brokers check
    the credentials, and requests are sent to the brokers with the client's own identity.
    """

    def __init__(
        self,
        security: Security,
        failed_delay_s: float,
        max_reauth_ms: int = 0,
        now_ms: Callable[[], int] = time_ms,
        forwarded_logins: ForwardedLogins | None = None,
    ) -> None:
        self.mechanisms, self._forwarded_logins = security.logins, forwarded_logins
        self._max_reauth_ms, self.now_ms = max_reauth_ms, now_ms
        self.login_turns = LoginTurns(failed_delay_s, THREADS if forwarded_logins is None else FORWARDED_LOGIN_THREADS)
        self._reading_keys: asyncio.Task[None] | None = None

    def new_login(self, node_id: int) -> Login:
        """Return the login of a new connection to the gateway's port for broker `node_id`."""
        if self._forwarded_logins is not None:
            identity = self._forwarded_logins.new_client(node_id)
            return Login(self, SaslServer(identity.mechanisms, self._max_reauth_ms), identity)
        if not self.mechanisms:
            return Login(self, None)
        return Login(self, SaslServer(self.mechanisms.enabled, self._max_reauth_ms))

    async def refresh_keys(self) -> None:
        """Reload the keys that verify tokens. Concurrent calls share one reload."""
        if self._reading_keys is None or self._reading_keys.done():
            self._reading_keys = asyncio.ensure_future(asyncio.to_thread(self.mechanisms.reload_keys))
        await asyncio.shield(self._reading_keys)

    def close(self) -> None:
        """Start no further login steps. Does not wait for steps in progress."""
        self.login_turns.close()


class Login:
    """The login of one client connection. Its result is written to the audit log.

    If `sasl` is None, no login is required. `RequestLoop` then identifies the client by its TLS certificate, if it has
    one. `client_identity` is the client's own identity at the brokers. It is None if the gateway sends requests to the
    brokers with the gateway's identity.
    """

    def __init__(self, shared: Logins, sasl: SaslServer | None, client_identity: ClientIdentity | None = None) -> None:
        self._shared, self._sasl, self._identity = shared, sasl, client_identity

    @property
    def upstream_settings(self) -> ClientSettings | None:
        """kafka-python's settings with the client's own login at the brokers.

        None if the gateway's identity is used, or until the client has logged in.
        """
        return None if self._identity is None else self._identity.settings

    async def with_rights(self, request: Request[U]) -> Request[U]:
        """Return a copy of the request whose `caller` contains the client's rights at the brokers.

        If the gateway uses its own identity at the brokers, the request itself is returned. Raises
        UpstreamUnavailableError if the brokers do not return the rights.
        """
        if self._identity is None:
            return request
        rights = await self._identity.get_rights(request.body, request.version)
        return replace(request, caller=replace(request.caller, rights=rights))

    def close(self) -> None:
        """Release the client's own login and rights at the brokers. Called when the client has disconnected."""
        if self._identity is not None:
            self._identity.close()

    @property
    def is_required(self) -> bool:
        """Whether clients must log in."""
        return self._sasl is not None

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in, or no login is required."""
        return self._sasl is None or self._sasl.is_authenticated

    @property
    def has_failed(self) -> bool:
        """Whether the login has failed, so that the connection must be closed after the response."""
        return self._sasl is not None and self._sasl.has_failed

    @property
    def principal(self) -> str | None:
        """The principal that SASL has authenticated; None before the login or if SASL is disabled."""
        return None if self._sasl is None else self._sasl.principal

    @property
    def expects_bare_message(self) -> bool:
        """Whether the next frame is a SASL message that is not wrapped in a request."""
        return self._sasl is not None and self._sasl.expects_bare_message

    def check_allowed(self, api_key: int) -> None:
        """Raise MalformedRequestError if the client must log in or reauthenticate before it sends this request."""
        if self._sasl is None or self._sasl.allows(api_key, self._shared.now_ms()):
            return
        is_expired = self._sasl.state is SaslState.AUTHENTICATED
        when = "after the SASL session ended" if is_expired else "before authentication"
        raise MalformedRequestError(f"{api_name(api_key)} request {when}")

    def handles_api(self, api_key: int) -> bool:
        """Return whether `handle_request` handles this API. False for all APIs if SASL is disabled."""
        return self._sasl is not None and self._sasl.handles_api(api_key)

    async def handle_request(self, request: Request[ApiMessage]) -> ApiMessage:
        """Perform the login step that a SaslHandshake or SaslAuthenticate requests, and return the response."""
        assert self._sasl is not None
        body = request.body
        if isinstance(body, SaslAuthenticateRequest):
            await self._refresh_keys_for(bytes(body.auth_bytes or b""))
        return await self._step(self._sasl.handle_request, request, request.caller)

    async def handle_bare_message(self, message: bytes, caller: Caller) -> bytes:
        """Perform the login step of a SASL message that is not wrapped in a request, and return the response.

        Clients send such messages after SaslHandshake v0. If `has_failed` is True after the call, the response must not
        be sent.
        """
        assert self._sasl is not None
        await self._refresh_keys_for(message)
        return await self._step(self._sasl.handle_bare_message, message, caller)

    async def _refresh_keys_for(self, message: bytes) -> None:
        """Reload the keys if the message is a token that is signed with an unknown key, because the key may be new."""
        assert self._sasl is not None
        if self._sasl.mechanism == OAUTHBEARER and self._shared.mechanisms.has_unknown_key(message):
            await self._shared.refresh_keys()

    async def _step(self, step: Callable[[T, int], U], message: T, caller: Caller) -> U:
        """Run a login step on a thread, because checking a password takes several milliseconds.

        If the step ends the login, write the result of the login to the audit log.
        """
        sasl = self._sasl
        assert sasl is not None
        before = sasl.state
        checked = partial(step, message, self._shared.now_ms())
        response = await self._shared.login_turns.run(caller.host, checked, lambda: sasl.has_failed)
        if sasl.has_failed:
            audit.log_rejected_login(caller.host, sasl.mechanism, sasl.claimed_user, sasl.rejection)
        elif sasl.state is SaslState.AUTHENTICATED and before is not SaslState.AUTHENTICATED:
            audit.log_login(replace(caller, principal=sasl.principal or ""), sasl.mechanism)
        return response
