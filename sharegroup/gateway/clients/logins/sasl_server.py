"""The server's side of SASL on one connection, whatever the mechanism. PURE: no I/O, and the time comes in.

Two requests make it up, and until they have succeeded there is nothing else but ApiVersions:

    START --SaslHandshake: mechanism--> CHOSEN --SaslAuthenticate--> AUTHENTICATED
                                           |    one message more        ^
                                           +--------> CHALLENGED -------+

Any SaslAuthenticate that does not succeed ends in FAILED, for good: the connection is to be closed after the answer.
A request in the wrong state is answered with ILLEGAL_SASL_STATE and ends there too, but for an authenticated client,
which stays so.

A session that has an end (KIP-368) is told with the answer, `session_lifetime_ms`: when the client's token runs out, or
after `connections.max.reauth.ms`, whichever is sooner. Such a client may authenticate again, by a SaslHandshake of the
same mechanism and as the same user, once a second at most; after the end of its session it may do nothing else (as
Kafka's SaslServerAuthenticator and KafkaChannel).

After a SaslHandshake of version 0 (clients before Kafka 1.0) the mechanism's messages come and go bare: a size of four
bytes and the message, without a request around it (`takes_bare_messages`). There, a refusal has no answer.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sharegroup.errors import ErrorCode
from sharegroup.gateway.wire.request import Request
from sharegroup.security.authentication.sasl_exchange import Answer, Exchange, LoginRefusedError, Mechanisms

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
#: From this version of SaslHandshake on, the mechanism's messages come in SaslAuthenticate requests.
REQUESTS_VERSION = 1
#: A client may not authenticate again before (Kafka's MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
LEAST_REAUTHENTICATION_MS = 1_000
#: What the field can hold.
_LONGEST_LIFETIME_MS = 2**63 - 1


async def sasl_is_off(request: Request[ApiMessage]) -> ApiMessage:
    """The handler of SaslHandshake and SaslAuthenticate where clients need not authenticate: ILLEGAL_SASL_STATE."""
    code = int(ErrorCode.ILLEGAL_SASL_STATE)
    if request.header.api_key == SASL_HANDSHAKE:
        return SaslHandshakeResponse(error_code=code, mechanisms=[])
    message = "this listener has no SASL"
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"", session_lifetime_ms=0)


class SaslState(Enum):
    """How far a connection's login has come."""

    START = "start"
    CHOSEN = "chosen"
    CHALLENGED = "challenged"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class SaslStep(NamedTuple):
    """How a SaslAuthenticate is answered; `auth_bytes` is the mechanism's message to the client."""

    error_code: ErrorCode
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


class SaslServer:
    """Takes one connection through its login, and through those that follow it.

    `max_reauth_ms` is Kafka's `connections.max.reauth.ms`, 0: no session ends by it. `principal` is `User:<name>` once
    the client is authenticated, `session_ends_ms` when that ends (ms since the epoch). Times are the caller's.
    """

    def __init__(self, mechanisms: Mechanisms, max_reauth_ms: int = 0) -> None:
        self._mechanisms, self._max_reauth_ms = mechanisms, max_reauth_ms
        self._exchange: Exchange | None = None
        self._is_bare = False
        self._began_again_ms: int | None = None
        self.state = SaslState.START
        self.mechanism = ""
        self.principal: str | None = None
        self.session_ends_ms: int | None = None
        #: Why the login was refused, for the audit.
        self.refusal = ""

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in; it stays so while it does it again."""
        return self.principal is not None and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether the connection is to be closed, after the answer."""
        return self.state is SaslState.FAILED

    @property
    def takes_bare_messages(self) -> bool:
        """Whether what comes next is no request but a message for `bare_message`."""
        return self._is_bare and self.state in (SaslState.CHOSEN, SaslState.CHALLENGED)

    @property
    def claimed(self) -> str:
        """Who the client says it is, for the audit; "" where it has not said so."""
        return "" if self._exchange is None else self._exchange.claimed

    def allows(self, api_key: int, now_ms: int) -> bool:
        """Whether the client may send such a request now."""
        if self.state is SaslState.AUTHENTICATED:
            return api_key == SASL_HANDSHAKE or not self.has_ended(now_ms)
        return not self.has_failed and api_key in (SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE)

    def has_ended(self, now_ms: int) -> bool:
        """Whether the client is past its session, and has to authenticate again."""
        return self.session_ends_ms is not None and now_ms >= self.session_ends_ms

    @staticmethod
    def is_sasl(api_key: int) -> bool:
        """Whether it is a request for `handle`."""
        return api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE)

    def handle(self, request: Request[ApiMessage], now_ms: int) -> ApiMessage:
        """The response to a SaslHandshake or SaslAuthenticate, as kafka-python's message."""
        body = request.body
        if isinstance(body, SaslHandshakeRequest):
            code = self.handshake(body.mechanism, request.version, now_ms)
            return SaslHandshakeResponse(error_code=int(code), mechanisms=list(self._mechanisms))
        assert isinstance(body, SaslAuthenticateRequest)
        step = self.authenticate(bytes(body.auth_bytes or b""), now_ms)
        return SaslAuthenticateResponse(
            error_code=int(step.error_code),
            error_message=step.error_message,
            auth_bytes=step.auth_bytes,
            session_lifetime_ms=step.session_lifetime_ms,
        )

    def bare_message(self, message: bytes, now_ms: int) -> bytes:
        """The answer to a bare message; where `has_failed` is true then, there is none."""
        return self.authenticate(message, now_ms).auth_bytes

    def handshake(self, mechanism: str, version: int, now_ms: int) -> ErrorCode:
        """The client names its mechanism; NONE, or why not. After an unknown one it may try another."""
        if self.state is SaslState.AUTHENTICATED:
            return self._begin_again(mechanism, version, now_ms)
        if self.state is not SaslState.START:
            return self._out_of_order()
        if mechanism not in self._mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._begin(mechanism, version)
        return ErrorCode.NONE

    def authenticate(self, message: bytes, now_ms: int) -> SaslStep:
        """The client's next SASL message, and the answer to it. A password takes milliseconds to check."""
        exchange = self._exchange
        if exchange is None or self.state not in (SaslState.CHOSEN, SaslState.CHALLENGED):
            return SaslStep(self._out_of_order(), "SaslHandshake comes first, and authentication only once")
        try:
            text = message.decode() if len(message) <= exchange.max_message_bytes else ""
        except UnicodeDecodeError:
            text = ""
        try:
            answer = exchange.respond(text)
            if answer.user is None:
                self.state = SaslState.CHALLENGED
                return SaslStep(ErrorCode.NONE, None, answer.message)
            return self._succeeded(f"User:{answer.user}", answer, now_ms)
        except LoginRefusedError as error:
            self.state, self.refusal = SaslState.FAILED, error.reason
            return SaslStep(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))

    def _begin(self, mechanism: str, version: int) -> None:
        self.mechanism, self._is_bare = mechanism, version < REQUESTS_VERSION
        self._exchange = self._mechanisms[mechanism]()
        self.state = SaslState.CHOSEN

    def _begin_again(self, mechanism: str, version: int, now_ms: int) -> ErrorCode:
        began_ms = self._began_again_ms
        is_too_soon = began_ms is not None and now_ms - began_ms < LEAST_REAUTHENTICATION_MS
        is_bare = version < REQUESTS_VERSION  # such clients know nothing of sessions that end
        if self.session_ends_ms is None or is_too_soon or is_bare or mechanism != self.mechanism:
            return self._out_of_order()
        self._began_again_ms = now_ms
        self._begin(mechanism, version)
        return ErrorCode.NONE

    def _succeeded(self, principal: str, answer: Answer, now_ms: int) -> SaslStep:
        """Raises LoginRefusedError."""
        if self.principal not in (None, principal):
            told = "The principal must not change when a client authenticates again."
            raise LoginRefusedError(told, f"it had logged in as {self.principal}")
        ends = [] if answer.valid_until_ms is None else [answer.valid_until_ms]
        if self._max_reauth_ms:
            ends.append(now_ms + self._max_reauth_ms)
        self.session_ends_ms = min(ends, default=None)
        self.state, self.principal = SaslState.AUTHENTICATED, principal
        lifetime_ms = 0 if self.session_ends_ms is None else max(1, self.session_ends_ms - now_ms)
        return SaslStep(ErrorCode.NONE, None, answer.message, min(lifetime_ms, _LONGEST_LIFETIME_MS))

    def _out_of_order(self) -> ErrorCode:
        if self.state is not SaslState.AUTHENTICATED:
            self.state, self.refusal = SaslState.FAILED, "a message of the login in the wrong order"
        return ErrorCode.ILLEGAL_SASL_STATE
