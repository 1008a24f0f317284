"""The server's side of SASL on one connection: PLAIN and SCRAM-SHA-512 (RFC 4616, RFC 5802). PURE: no I/O.

Two requests make it up, and until they have succeeded there is nothing else but ApiVersions:

    START --SaslHandshake: mechanism--> CHOSEN --SaslAuthenticate--> AUTHENTICATED
                                           |  SCRAM: one message more   ^
                                           +--------> CHALLENGED -------+

Any SaslAuthenticate that does not succeed ends in FAILED, for good: the connection is to be closed after the answer.
A request in the wrong state is answered with ILLEGAL_SASL_STATE and ends there too, but for an authenticated client,
which stays so (it may not authenticate again, as in Kafka without `connections.max.reauth.ms`).

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
from scramp import ScramException, ScramMechanism

from sharegroup.errors import ErrorCode
from sharegroup.gateway.security.credentials import SCRAM_SHA_512, Credentials
from sharegroup.gateway.wire.request import Request

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, SCRAM_SHA_512)
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
#: From this version of SaslHandshake on, the mechanism's messages come in SaslAuthenticate requests.
REQUESTS_VERSION = 1
#: No message of the two mechanisms is nearly as long.
MAX_MESSAGE_BYTES = 4_096

_SCRAM = ScramMechanism(SCRAM_SHA_512)
_REFUSED = "the user is not known, or the password is wrong"


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


class SaslServer:
    """Takes one connection through its login. `server_nonce` is random text of this connection's own (printable ASCII
    without a comma).

    `principal` is `User:<name>` once the client is authenticated. Checking a PLAIN password takes milliseconds.
    """

    def __init__(self, credentials: Credentials, server_nonce: str) -> None:
        self._credentials = credentials
        self._scram = _SCRAM.make_server(self._scram_credential, s_nonce=server_nonce)
        self._user = ""
        self._mechanism = ""
        self._is_bare = False
        self.state = SaslState.START
        self.principal: str | None = None

    @property
    def is_authenticated(self) -> bool:
        """Whether any request is allowed."""
        return self.state is SaslState.AUTHENTICATED

    @property
    def has_failed(self) -> bool:
        """Whether the connection is to be closed, after the answer."""
        return self.state is SaslState.FAILED

    @property
    def takes_bare_messages(self) -> bool:
        """Whether what comes next is no request but a message for `bare_message`."""
        return self._is_bare and self.state in (SaslState.CHOSEN, SaslState.CHALLENGED)

    def allows(self, api_key: int) -> bool:
        """Whether the client may send such a request now."""
        if self.has_failed:
            return False
        return self.is_authenticated or api_key in (SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE)

    @staticmethod
    def is_sasl(api_key: int) -> bool:
        """Whether it is a request for `handle`."""
        return api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE)

    def handle(self, request: Request[ApiMessage]) -> ApiMessage:
        """The response to a SaslHandshake or SaslAuthenticate, as kafka-python's message."""
        body = request.body
        if isinstance(body, SaslHandshakeRequest):
            code = self.handshake(body.mechanism, request.version)
            return SaslHandshakeResponse(error_code=int(code), mechanisms=list(MECHANISMS))
        assert isinstance(body, SaslAuthenticateRequest)
        code, message, answer = self.authenticate(bytes(body.auth_bytes or b""))
        return SaslAuthenticateResponse(
            error_code=int(code), error_message=message, auth_bytes=answer, session_lifetime_ms=0
        )

    def bare_message(self, message: bytes) -> bytes:
        """The answer to a bare message; where `has_failed` is true then, there is none."""
        return self.authenticate(message).auth_bytes

    def handshake(self, mechanism: str, version: int = 1) -> ErrorCode:
        """The client names its mechanism; NONE, or why not. After an unknown one it may try another."""
        if self.state is not SaslState.START:
            return self._out_of_order()
        if mechanism not in MECHANISMS:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism, self._is_bare = mechanism, version < REQUESTS_VERSION
        self.state = SaslState.CHOSEN
        return ErrorCode.NONE

    def authenticate(self, message: bytes) -> SaslStep:
        """The client's next SASL message, and the answer to it."""
        if self.state not in (SaslState.CHOSEN, SaslState.CHALLENGED):
            return SaslStep(self._out_of_order(), "SaslHandshake comes first, and authentication only once")
        try:
            text = message.decode() if len(message) <= MAX_MESSAGE_BYTES else ""
        except UnicodeDecodeError:
            text = ""
        if self._mechanism == PLAIN:
            return self._plain(text)
        return self._scram_first(text) if self.state is SaslState.CHOSEN else self._scram_final(text)

    def _plain(self, text: str) -> SaslStep:
        authorization_id, *rest = text.split("\0")
        if len(rest) != 2 or authorization_id not in ("", rest[0]):
            return self._failed()
        user, password = rest
        if not self._credentials.credential(user).proves(password):
            return self._failed()
        return self._succeeded(user, b"")

    def _scram_first(self, text: str) -> SaslStep:
        try:
            self._scram.set_client_first(text)
            challenge: str = self._scram.get_server_first()
        except ScramException:
            return self._failed()
        self.state = SaslState.CHALLENGED
        return SaslStep(ErrorCode.NONE, None, challenge.encode())

    def _scram_final(self, text: str) -> SaslStep:
        try:
            self._scram.set_client_final(text)
            proof: str = self._scram.get_server_final()
        except ScramException:
            return self._failed()
        return self._succeeded(self._user, proof.encode())

    def _scram_credential(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self._user = user
        return tuple(self._credentials.credential(user))  # type: ignore[return-value]  # the same four fields

    def _succeeded(self, user: str, answer: bytes) -> SaslStep:
        self.state = SaslState.AUTHENTICATED
        self.principal = f"User:{user}"
        return SaslStep(ErrorCode.NONE, None, answer)

    def _failed(self) -> SaslStep:
        self.state = SaslState.FAILED
        return SaslStep(ErrorCode.SASL_AUTHENTICATION_FAILED, _REFUSED)

    def _out_of_order(self) -> ErrorCode:
        if not self.is_authenticated:
            self.state = SaslState.FAILED
        return ErrorCode.ILLEGAL_SASL_STATE
