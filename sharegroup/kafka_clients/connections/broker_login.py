"""SASL login at an upstream broker: with the configured login, or with the forwarded login of a client."""

import asyncio
import math
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
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError, UpstreamUnavailableError

#: The key of a ForwardedLogin in `ClientSettings`. If it is present, kafka-python's sasl_* settings are ignored.
FORWARDED_LOGIN = "passed_on_login"
#: The first version of SaslAuthenticate whose response contains the session lifetime (KIP-368).
LIFETIME_VERSION = 1
#: The part of a session's lifetime after which to reauthenticate. Kafka's clients use 85 to 95 percent.
REAUTHENTICATION_POINT = 0.85
#: Defaults of kafka-python's own clients.
_DEFAULTS = {"sasl_kerberos_service_name": "kafka"}
#: The message with which a client confirms that it has read the rejection of its token (RFC 7628, 3.2.3).
_READ = b"\x01"


@dataclass(frozen=True)
class ForwardedLogin:
    """A client's login as received: the mechanism, and the single message that authenticates the client.

    Only PLAIN and OAUTHBEARER logins can be forwarded. SCRAM's messages depend on the challenge of one server.
    """

    mechanism: str
    message: bytes = field(repr=False)


class Broker(Protocol):
    """A broker to which a login is sent, through an open connection (`UpstreamConnection`)."""

    async def exchange(self, request: ApiMessage, response: type[Response], version: int) -> Response:
        """Send a request and return its response."""


def reauthentication_delay_s(lifetime_ms: int) -> float:
    """Return the seconds between a login and its reauthentication; infinity if the lifetime is 0 (unlimited)."""
    return lifetime_ms / 1000 * REAUTHENTICATION_POINT if lifetime_ms else math.inf


async def log_in(broker: Broker, host: str, settings: ClientSettings) -> int:
    """Log in at the broker, and return the lifetime of the SASL session in ms, 0 if it is unlimited.

    If `settings` contain a ForwardedLogin, it is used. Otherwise their sasl_* settings are used.

    Raises UpstreamLoginRejectedError if the broker rejects the login, and UpstreamUnavailableError if the login fails
    for another reason.
    """
    passed_on = settings.get(FORWARDED_LOGIN)
    if passed_on is not None:
        return await _pass_on(broker, passed_on)
    name = settings.get("sasl_mechanism", "PLAIN")
    await _choose(broker, name)
    mechanism = get_sasl_mechanism(name)(host=host, **{**_DEFAULTS, "sasl_mechanism": name, **settings})
    lifetime_ms = 0
    while not mechanism.is_done():
        try:
            message = await asyncio.to_thread(mechanism.auth_bytes)  # a token provider may wait for its server
        except Exception as error:
            raise UpstreamUnavailableError(f"the login has no token: {error}") from error
        response = await _say(broker, message)
        mechanism.receive(bytes(response.auth_bytes))
        lifetime_ms = int(response.session_lifetime_ms)
    if not mechanism.is_authenticated():
        raise UpstreamUnavailableError("the SASL login at the upstream broker did not complete")
    return lifetime_ms


async def _pass_on(broker: Broker, login: ForwardedLogin) -> int:
    await _choose(broker, login.mechanism)
    response = await _say(broker, login.message)
    if response.auth_bytes:  # the rejection of a token has its own message before the error
        await _say(broker, _READ)
        raise UpstreamLoginRejectedError("the upstream broker rejected the login")
    return int(response.session_lifetime_ms)


async def _choose(broker: Broker, mechanism: str) -> None:
    handshake = await broker.exchange(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms)
        raise UpstreamLoginRejectedError(f"the upstream broker does not offer {mechanism}, but only {offered}")


async def _say(broker: Broker, message: bytes) -> SaslAuthenticateResponse:
    request = SaslAuthenticateRequest(auth_bytes=message)
    response = await broker.exchange(request, SaslAuthenticateResponse, LIFETIME_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise UpstreamLoginRejectedError(f"the upstream broker rejected the login: {response.error_message}")
    return response
