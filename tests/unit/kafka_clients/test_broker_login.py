"""The login at a broker, and when a connection reauthenticates (KIP-368)."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from sharegroup.kafka_clients.connections.broker_login import log_in, reauthentication_delay_s
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError

PATIENCE_S = 60


@pytest.mark.parametrize(("lifetime_ms", "delay_s"), [(0, math.inf), (1, 0.00085), (2_000, 1.7), (3_600_000, 3_060)])
def test_reauthentication_is_due_before_the_session_ends(lifetime_ms: int, delay_s: float) -> None:
    assert reauthentication_delay_s(lifetime_ms) == pytest.approx(delay_s)


class Broker:
    """A broker that accepts every login for an hour."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    async def exchange(self, request: Any, response: Any, version: int) -> Any:
        if response is SaslHandshakeResponse:
            return SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"])
        self.said.append(request.auth_bytes)
        return SaslAuthenticateResponse(error_code=0, auth_bytes=b"", session_lifetime_ms=3_600_000)


class SlowTokens(AbstractTokenProvider):
    """A provider that waits for its server."""

    def __init__(self) -> None:
        self.is_asked, self.is_answered = threading.Event(), threading.Event()

    def token(self) -> str:
        self.is_asked.set()
        assert self.is_answered.wait(PATIENCE_S), "the event loop is blocked"
        return "the token"


async def test_event_loop_runs_while_a_token_provider_waits() -> None:
    broker, tokens = Broker(), SlowTokens()
    settings: Any = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": tokens}
    login = asyncio.ensure_future(log_in(broker, "localhost", settings))
    while not tokens.is_asked.is_set():
        await asyncio.sleep(0)
    tokens.is_answered.set()
    assert await login == 3_600_000
    assert b"the token" in broker.said[0]


async def test_error_of_a_token_provider_is_an_outage() -> None:
    class NoTokens(AbstractTokenProvider):
        def token(self) -> str:
            raise OSError("the server of the tokens restarts")

    settings: Any = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": NoTokens()}
    with pytest.raises(UpstreamUnavailableError, match="the server of the tokens restarts"):
        await log_in(Broker(), "localhost", settings)
