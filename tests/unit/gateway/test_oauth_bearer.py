"""OAUTHBEARER: the client's message, and the rejection in two steps, as in Kafka."""

from __future__ import annotations

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.security.authentication.oauth_bearer import (
    MAX_MESSAGE_BYTES,
    OAUTHBEARER,
    AcceptedToken,
    OAuthBearerExchange,
    parse_message,
)
from sharegroup.security.authentication.sasl_exchange import LoginRejectedError
from tests.unit.gateway.logins import bearer

NOW_MS = 1_790_000_000_000


def check(token: str) -> AcceptedToken:
    if token != "good":
        raise LoginRejectedError("the token was rejected", "it is bad")
    return AcceptedToken("alice", NOW_MS + 60_000)


def new_server(max_reauth_ms: int = 0) -> SaslServer:
    server = SaslServer({OAUTHBEARER: lambda: OAuthBearerExchange(check)}, max_reauth_ms)
    assert server.choose_mechanism(OAUTHBEARER, 1, NOW_MS) is ErrorCode.NONE
    return server


def test_session_ends_when_the_token_expires() -> None:
    server = new_server()
    assert server.authenticate(bearer("good"), NOW_MS) == (ErrorCode.NONE, None, b"", 60_000)
    assert (server.principal, server.session_ends_ms) == ("User:alice", NOW_MS + 60_000)


@pytest.mark.parametrize(("max_reauth_ms", "lifetime_ms"), [(30_000, 30_000), (90_000, 60_000)])
def test_session_ends_at_the_earlier_limit(max_reauth_ms: int, lifetime_ms: int) -> None:
    server = new_server(max_reauth_ms)
    assert server.authenticate(bearer("good"), NOW_MS).session_lifetime_ms == lifetime_ms


@pytest.mark.parametrize("answer", [b"\x01", b"", bearer("good")])
def test_login_fails_after_the_client_confirms_the_rejection(answer: bytes) -> None:
    server = new_server()
    assert server.authenticate(bearer("bad"), NOW_MS) == (ErrorCode.NONE, None, b'{"status":"invalid_token"}', 0)
    assert not server.has_failed
    assert [api_key for api_key in range(100) if server.allows(api_key, NOW_MS)] == [17, 18, 36]
    refused = server.authenticate(answer, NOW_MS)
    assert refused == (ErrorCode.SASL_AUTHENTICATION_FAILED, "the token was rejected", b"", 0)
    assert (server.has_failed, server.principal, server.rejection) == (True, None, "it is bad")


def test_authorization_id_must_be_the_user() -> None:
    server = new_server()
    server.authenticate(bearer("good", "bob"), NOW_MS)
    server.authenticate(b"\x01", NOW_MS)
    assert (server.rejection, server.claimed_user) == ("the authorization id differs from the user name", "alice")


@pytest.mark.parametrize(
    ("message", "parsed"),
    [
        ("n,,\x01auth=Bearer abc.d-e_f.g~h/i+j==\x01\x01", ("", "abc.d-e_f.g~h/i+j==")),
        ("n,a=alice,\x01auth=bearer abc\x01\x01", ("alice", "abc")),
        ("n,a=al=2Cice=3D,\x01auth=Bearer   abc\x01\x01", ("al,ice=", "abc")),
        ("n,,\x01trace=x y\x01auth=Bearer abc\x01tenant=z=1\x01\x01", ("", "abc")),
    ],
)
def test_valid_messages_are_parsed(message: str, parsed: tuple[str, str]) -> None:
    assert parse_message(message) == parsed


@pytest.mark.parametrize(
    "message",
    [
        "",
        "n,,",
        "n,,\x01\x01",
        "n,,\x01auth=Bearer abc\x01",
        "n,,\x01auth=Bearer abc\x01\x01\x01",
        "y,,\x01auth=Bearer abc\x01\x01",
        "p=tls-unique,,\x01auth=Bearer abc\x01\x01",
        "n,,\x01auth=Basic abc\x01\x01",
        "n,,\x01auth=Bearer\x01\x01",
        "n,,\x01auth=Bearer abc def\x01\x01",
        "n,,\x01auth=Bearer abc\x01auth=Bearer def\x01\x01",
        "n,,\x01token=Bearer abc\x01\x01",
        "n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        "n,,\x01auth=Bearer äbc\x01\x01",
    ],
)
def test_malformed_messages_are_rejected(message: str) -> None:
    with pytest.raises(LoginRejectedError):
        parse_message(message)


@pytest.mark.parametrize("message", [b"\xff", bearer("x" * MAX_MESSAGE_BYTES)])
def test_undecodable_message_is_rejected_like_others(message: bytes) -> None:
    server = new_server()
    assert server.authenticate(message, NOW_MS).auth_bytes == b'{"status":"invalid_token"}'


def test_almost_valid_message_is_parsed_in_linear_time() -> None:
    """Parse it in one pass, whatever it repeats."""
    with pytest.raises(LoginRejectedError):
        parse_message("n,," + "\x01a=" * 5_000)
