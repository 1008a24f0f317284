"""The client's side of SASL, at an upstream broker: the gateway's own login, or a client's that is passed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRefusedError, UpstreamUnavailableError

#: The key in `ClientSettings` of a PassedOnLogin, which is then used in place of kafka-python's sasl_*.
PASSED_ON_LOGIN = "passed_on_login"
#: From here on the response says how long the session lasts (KIP-368). The gateway's own login has no use for that.
LIFETIME_VERSION = 1
#: As kafka-python's own clients have them.
_DEFAULTS = {"sasl_kerberos_service_name": "kafka"}
#: What a client says when it has read why its token is refused (RFC 7628, 3.2.3).
_READ = b"\x01"


@dataclass(frozen=True)
class PassedOnLogin:
    """A client's login as it came: the mechanism, and the one message that proves who the client is.

    So do PLAIN and OAUTHBEARER; SCRAM's messages are made for the challenge of one server.
    """

    mechanism: str
    message: bytes = field(repr=False)


class Broker(Protocol):
    """Who is asked."""

    async def ask(self, request: ApiMessage, response: type[Response], version: int) -> Response:
        """A request, and what comes back."""


async def log_in(broker: Broker, host: str, settings: ClientSettings) -> int:
    """Log in as the settings say; how long the session lasts, in milliseconds, 0 where that is not limited or known.

    Raises UpstreamLoginRefusedError, and UpstreamUnavailableError.
    """
    passed_on = settings.get(PASSED_ON_LOGIN)
    if passed_on is not None:
        return await _pass_on(broker, passed_on)
    name = settings.get("sasl_mechanism", "PLAIN")
    await _choose(broker, name)
    mechanism = get_sasl_mechanism(name)(host=host, **{**_DEFAULTS, "sasl_mechanism": name, **settings})
    while not mechanism.is_done():
        response = await _say(broker, mechanism.auth_bytes(), 0)
        mechanism.receive(bytes(response.auth_bytes))
    if not mechanism.is_authenticated():
        raise UpstreamUnavailableError("the upstream broker's login failed")
    return 0


async def _pass_on(broker: Broker, login: PassedOnLogin) -> int:
    await _choose(broker, login.mechanism)
    response = await _say(broker, login.message, LIFETIME_VERSION)
    if response.auth_bytes:  # the refusal of a token has a message of its own before the error
        await _say(broker, _READ, LIFETIME_VERSION)
        raise UpstreamLoginRefusedError("the upstream broker refuses our login")
    return int(response.session_lifetime_ms)


async def _choose(broker: Broker, mechanism: str) -> None:
    handshake = await broker.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms)
        raise UpstreamLoginRefusedError(f"the upstream broker has no SASL mechanism {mechanism}; it has {offered}")


async def _say(broker: Broker, message: bytes, version: int) -> SaslAuthenticateResponse:
    response = await broker.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, version)
    if response.error_code != ErrorCode.NONE:
        raise UpstreamLoginRefusedError(f"the upstream broker refuses our login: {response.error_message}")
    return response
