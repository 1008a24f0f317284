"""Server side of SASL on one connection, for any mechanism. No I/O; times are passed in.

A login consists of a SaslHandshake and one or two SaslAuthenticate requests. Until the login has succeeded, the only
other request that is allowed is ApiVersions.

    START --SaslHandshake: mechanism--> CHOSEN --SaslAuthenticate--> AUTHENTICATED
                                           |    one more message        ^
                                           +--------> CHALLENGED -------+

A failed SaslAuthenticate leads to the state FAILED, which is final: the connection is closed after the response. A SASL
request in the wrong state gets the error ILLEGAL_SASL_STATE. It also leads to FAILED, unless the state is
AUTHENTICATED.

The response to a login contains the time until its session ends (KIP-368, `session_lifetime_ms`). The session ends when
the client's token expires or after `connections.max.reauth.ms`, whichever is sooner. The client may reauthenticate at
most once a second, with the same mechanism and as the same user. After the end of the session, only a reauthentication
is allowed. These rules are those of Kafka's SaslServerAuthenticator and KafkaChannel.

After a SaslHandshake of version 0 (clients before Kafka 1.0), SASL messages are bare, that is, not wrapped in requests.
In this case, a frame consists of a size of four bytes and the message (`expects_bare_message`). If such a login fails,
no response is sent.
"""

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
from sharegroup.security.authentication.sasl_exchange import Exchange, ExchangeStep, LoginRejectedError, Mechanisms

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
#: From this version of SaslHandshake on, SASL messages are wrapped in SaslAuthenticate requests.
REQUESTS_VERSION = 1
#: Shortest time between reauthentications (Kafka's MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
LEAST_REAUTHENTICATION_MS = 1_000
#: The largest value of the field `session_lifetime_ms`.
_LONGEST_LIFETIME_MS = 2**63 - 1


async def reject_sasl(request: Request[ApiMessage]) -> ApiMessage:
    """Handle SaslHandshake and SaslAuthenticate on a listener without SASL: return ILLEGAL_SASL_STATE."""
    code = int(ErrorCode.ILLEGAL_SASL_STATE)
    if request.header.api_key == SASL_HANDSHAKE:
        return SaslHandshakeResponse(error_code=code, mechanisms=[])
    message = "SASL is not enabled on this listener"
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"", session_lifetime_ms=0)


class SaslState(Enum):
    """The state of a connection's login."""

    START = "start"
    CHOSEN = "chosen"
    CHALLENGED = "challenged"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class SaslStep(NamedTuple):
    """The result of a login step: the fields of the SaslAuthenticate response.

    `auth_bytes` is the SASL mechanism's message to the client. `session_lifetime_ms` is 0 if the session does not end.
    """

    error_code: ErrorCode
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


class SaslServer:
    """The server side of one connection's login, and of its reauthentications.

    `max_reauth_ms` is Kafka's `connections.max.reauth.ms`, the longest session in ms. 0 means no limit.

    Attributes:
        principal: `User:<name>` once the client is authenticated, else None.
        session_ends_ms: the end of the session in ms since the epoch; None if the session does not end.
    """

    def __init__(self, mechanisms: Mechanisms, max_reauth_ms: int = 0) -> None:
        self._mechanisms, self._max_reauth_ms = mechanisms, max_reauth_ms
        self._exchange: Exchange | None = None
        self._is_bare = False
        self._reauthenticated_ms: int | None = None
        self.state = SaslState.START
        self.mechanism = ""
        self.principal: str | None = None
        self.session_ends_ms: int | None = None
        #: Why the login was rejected, for the audit log.
        self.rejection = ""

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has logged in. The value remains True while the client reauthenticates."""
        return self.principal is not None and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether the login has failed, so that the connection must be closed after the response."""
        return self.state is SaslState.FAILED

    @property
    def expects_bare_message(self) -> bool:
        """Whether the next frame is a SASL message that is not wrapped in a request; see `handle_bare_message`."""
        return self._is_bare and self.state in (SaslState.CHOSEN, SaslState.CHALLENGED)

    @property
    def claimed_user(self) -> str:
        """The user name that the client has sent, for the audit log; empty if it has not sent one."""
        return "" if self._exchange is None else self._exchange.claimed

    def allows(self, api_key: int, now_ms: int) -> bool:
        """Return whether the client may send a request of this API now."""
        if self.state is SaslState.AUTHENTICATED:
            return api_key == SASL_HANDSHAKE or not self.has_session_ended(now_ms)
        return not self.has_failed and api_key in (SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE)

    def has_session_ended(self, now_ms: int) -> bool:
        """Return whether the session has ended, so that the client must reauthenticate."""
        return self.session_ends_ms is not None and now_ms >= self.session_ends_ms

    @staticmethod
    def handles_api(api_key: int) -> bool:
        """Return whether `handle_request` handles this API."""
        return api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE)

    def handle_request(self, request: Request[ApiMessage], now_ms: int) -> ApiMessage:
        """Process a SaslHandshake or SaslAuthenticate, and return the response as kafka-python's message."""
        body = request.body
        if isinstance(body, SaslHandshakeRequest):
            code = self.choose_mechanism(body.mechanism, request.version, now_ms)
            return SaslHandshakeResponse(error_code=int(code), mechanisms=list(self._mechanisms))
        assert isinstance(body, SaslAuthenticateRequest)
        step = self.authenticate(bytes(body.auth_bytes or b""), now_ms)
        return SaslAuthenticateResponse(
            error_code=int(step.error_code),
            error_message=step.error_message,
            auth_bytes=step.auth_bytes,
            session_lifetime_ms=step.session_lifetime_ms,
        )

    def handle_bare_message(self, message: bytes, now_ms: int) -> bytes:
        """Process a SASL message that is not wrapped in a request, and return the response.

        Clients send such messages after SaslHandshake v0. If `has_failed` is True after the call, the response must not
        be sent.
        """
        return self.authenticate(message, now_ms).auth_bytes

    def choose_mechanism(self, mechanism: str, version: int, now_ms: int) -> ErrorCode:
        """Start a login or reauthentication with the mechanism that the client has chosen in a SaslHandshake.

        Returns NONE if it has started, else the error code. After an unknown mechanism, the client may choose another
        one. `version` is that of the SaslHandshake.
        """
        if self.state is SaslState.AUTHENTICATED:
            return self._reauthenticate(mechanism, version, now_ms)
        if self.state is not SaslState.START:
            return self._fail_out_of_order()
        if mechanism not in self._mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._choose(mechanism, version)
        return ErrorCode.NONE

    def authenticate(self, message: bytes, now_ms: int) -> SaslStep:
        """Process the client's next SASL message and return the response.

        Must be called on a thread outside the event loop: checking a password takes several milliseconds, and a
        forwarded login waits for a broker.
        """
        exchange = self._exchange
        if exchange is None or self.state not in (SaslState.CHOSEN, SaslState.CHALLENGED):
            return SaslStep(self._fail_out_of_order(), "SaslAuthenticate must follow a SaslHandshake")
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
        except LoginRejectedError as error:
            self.state, self.rejection = SaslState.FAILED, error.reason
            return SaslStep(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))

    def _choose(self, mechanism: str, version: int) -> None:
        self.mechanism, self._is_bare = mechanism, version < REQUESTS_VERSION
        self._exchange = self._mechanisms[mechanism]()
        self.state = SaslState.CHOSEN

    def _reauthenticate(self, mechanism: str, version: int, now_ms: int) -> ErrorCode:
        began_ms = self._reauthenticated_ms
        is_too_soon = began_ms is not None and now_ms - began_ms < LEAST_REAUTHENTICATION_MS
        is_bare = version < REQUESTS_VERSION  # such clients do not support sessions that end
        if self.session_ends_ms is None or is_too_soon or is_bare or mechanism != self.mechanism:
            return self._fail_out_of_order()
        self._reauthenticated_ms = now_ms
        self._choose(mechanism, version)
        return ErrorCode.NONE

    def _succeeded(self, principal: str, answer: ExchangeStep, now_ms: int) -> SaslStep:
        """Complete the login and return the response. Raises LoginRejectedError if the principal has changed."""
        if self.principal not in (None, principal):
            message = "The principal must not change when a client reauthenticates."
            raise LoginRejectedError(message, f"a client of {self.principal} tried to reauthenticate as {principal}")
        ends = [] if answer.valid_until_ms is None else [answer.valid_until_ms]
        if self._max_reauth_ms:
            ends.append(now_ms + self._max_reauth_ms)
        self.session_ends_ms = min(ends, default=None)
        self.state, self.principal = SaslState.AUTHENTICATED, principal
        lifetime_ms = 0 if self.session_ends_ms is None else max(1, self.session_ends_ms - now_ms)
        return SaslStep(ErrorCode.NONE, None, answer.message, min(lifetime_ms, _LONGEST_LIFETIME_MS))

    def _fail_out_of_order(self) -> ErrorCode:
        if self.state is not SaslState.AUTHENTICATED:
            self.state, self.rejection = SaslState.FAILED, "a SASL message was out of order"
        return ErrorCode.ILLEGAL_SASL_STATE
