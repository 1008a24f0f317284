"""The SASL server against scramp's client and plain bytes: only the right password in the right order logs in."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from scramp import ScramClient, ScramException, ScramMechanism

from sharegroup.errors import ErrorCode
from sharegroup.gateway.clients.logins.sasl_server import SaslServer, SaslState, SaslStep, reject_sasl
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.headers import RequestHeader
from sharegroup.security.authentication.credentials import Credentials, ScramCredential, hash_password, load_credentials
from sharegroup.security.authentication.password_exchanges import PlainExchange
from sharegroup.security.caller import Caller
from tests.unit.gateway.logins import password_mechanisms

SCRAM, SCRAM_256 = "SCRAM-SHA-512", "SCRAM-SHA-256"
NOW_MS = 1_790_000_000_000
PASSWORD = "pässword, with = and ,"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("sasl") / "users.yaml"
    both = hash_password("alice", PASSWORD, (SCRAM, SCRAM_256))
    path.write_text(f"{both}\n{hash_password('bob', 'b')}\n", encoding="utf-8")
    return load_credentials(str(path), b"decoy")


@pytest.fixture
def server(credentials: Credentials) -> SaslServer:
    return new_server(credentials)


def new_server(credentials: Credentials, server_nonce: str = "server-nonce", max_reauth_ms: int = 0) -> SaslServer:
    return SaslServer(password_mechanisms(credentials, server_nonce), max_reauth_ms)


def choose(server: SaslServer, mechanism: str, version: int = 1) -> ErrorCode:
    return server.choose_mechanism(mechanism, version, NOW_MS)


def say(server: SaslServer, message: bytes, now_ms: int = NOW_MS) -> SaslStep:
    return server.authenticate(message, now_ms)


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


def scram_login(server: SaslServer, user: str, password: str, mechanism: str = SCRAM) -> ErrorCode:
    """Log in; return the code of the first response that rejects it, or NONE."""
    assert choose(server, mechanism) is ErrorCode.NONE
    client = ScramClient([mechanism], user, password)
    first = say(server, client.get_client_first().encode())
    if first.error_code:
        return first.error_code
    client.set_server_first(first.auth_bytes.decode())
    final = say(server, client.get_client_final().encode())
    if not final.error_code:
        client.set_server_final(final.auth_bytes.decode())  # checks the server's proof
    return final.error_code


@pytest.mark.parametrize("mechanism", [SCRAM, SCRAM_256])
def test_scram(server: SaslServer, mechanism: str) -> None:
    assert scram_login(server, "alice", PASSWORD, mechanism) is ErrorCode.NONE
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


def test_plain(server: SaslServer) -> None:
    assert choose(server, "PLAIN") is ErrorCode.NONE
    assert say(server, plain("alice", PASSWORD)) == SaslStep(ErrorCode.NONE)
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


@pytest.mark.parametrize(("user", "password"), [("alice", "b"), ("bob", PASSWORD), ("carol", "b"), ("alice", "")])
def test_wrong_password_and_unknown_user_are_indistinguishable(
    credentials: Credentials, user: str, password: str
) -> None:
    over_scram = new_server(credentials)
    assert scram_login(over_scram, user, password) is ErrorCode.SASL_AUTHENTICATION_FAILED
    over_plain = new_server(credentials)
    choose(over_plain, "PLAIN")
    refused = say(over_plain, plain(user, password))
    assert refused.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    over_plain = new_server(credentials)
    choose(over_plain, "PLAIN")
    assert say(over_plain, plain("nobody", "nothing")) == refused
    for server in (over_scram, over_plain):
        assert server.has_failed
        assert server.principal is None


def test_unknown_user_gets_the_same_salt_each_time(credentials: Credentials) -> None:
    challenges = set()
    for _ in range(2):
        server = new_server(credentials)
        choose(server, SCRAM)
        challenges.add(say(server, b"n,,n=carol,r=client-nonce").auth_bytes)
    assert len(challenges) == 1
    assert b"i=8192" in challenges.pop()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0" + PASSWORD.encode() + b"\0",
        b"bob\0alice\0" + PASSWORD.encode(),  # in the name of another user
        b"\0\0",
        b"\0alice\0\x01",
        b"\xff\0alice\0" + PASSWORD.encode(),
        plain("alice", PASSWORD) + b"x" * PlainExchange.max_message_bytes,
    ],
)
def test_malformed_plain(server: SaslServer, message: bytes) -> None:
    choose(server, "PLAIN")
    assert say(server, message).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


def test_plain_may_name_the_user_twice(server: SaslServer) -> None:
    choose(server, "PLAIN")
    assert say(server, plain("alice", PASSWORD, "alice")).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"n,,n=alice", b"p=tls-unique,,n=alice,r=x", b"n,a=bob,n=alice,r=x", b"\xff\xfe", b"n,,n=al=ice,r=x"],
)
def test_malformed_scram(server: SaslServer, message: bytes) -> None:
    choose(server, SCRAM)
    assert say(server, message).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


@pytest.mark.parametrize("final", [b"", b"c=biws,r=wrong,p=AAAA", b"c=biws,r=xserver-nonce,p=!", b"\xff"])
def test_malformed_scram_final(server: SaslServer, final: bytes) -> None:
    choose(server, SCRAM)
    assert say(server, b"n,,n=alice,r=x").error_code is ErrorCode.NONE
    assert say(server, final).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


def test_proof_of_another_exchange_is_rejected(credentials: Credentials) -> None:
    client = ScramClient([SCRAM], "alice", PASSWORD)
    overheard = new_server(credentials, "first-nonce")
    choose(overheard, SCRAM)
    client.set_server_first(say(overheard, client.get_client_first().encode()).auth_bytes.decode())
    proof = client.get_client_final().encode()
    assert say(overheard, proof).error_code is ErrorCode.NONE
    replayed = new_server(credentials, "second-nonce")
    choose(replayed, SCRAM)
    say(replayed, f"n,,n=alice,r={client.c_nonce}".encode())
    assert say(replayed, proof).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_server_proof_requires_the_password(server: SaslServer) -> None:
    client = ScramClient([SCRAM], "alice", PASSWORD)
    choose(server, SCRAM)
    client.set_server_first(say(server, client.get_client_first().encode()).auth_bytes.decode())
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=AAAA")


def test_an_unknown_mechanism_may_be_followed_by_a_known_one(server: SaslServer) -> None:
    assert choose(server, "GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert choose(server, "plain") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert choose(server, "PLAIN") is ErrorCode.NONE


def test_bare_messages_after_a_handshake_of_version_0(server: SaslServer) -> None:
    assert not server.expects_bare_message
    assert choose(server, "GSSAPI", 0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert not server.expects_bare_message
    assert choose(server, "PLAIN", 0) is ErrorCode.NONE
    assert server.expects_bare_message
    assert server.handle_bare_message(plain("alice", PASSWORD), NOW_MS) == b""
    assert not server.expects_bare_message
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


def test_bare_messages_of_scram(server: SaslServer) -> None:
    assert choose(server, SCRAM, 0) is ErrorCode.NONE
    client = ScramClient([SCRAM], "alice", PASSWORD)
    client.set_server_first(server.handle_bare_message(client.get_client_first().encode(), NOW_MS).decode())
    assert server.expects_bare_message
    client.set_server_final(server.handle_bare_message(client.get_client_final().encode(), NOW_MS).decode())
    assert (server.expects_bare_message, server.principal) == (False, "User:alice")


@pytest.mark.parametrize(("mechanism", "wrong"), [("PLAIN", plain("alice", "b")), (SCRAM, b"n,,n=alice"), (SCRAM, b"")])
def test_wrong_bare_message_has_no_response(server: SaslServer, mechanism: str, wrong: bytes) -> None:
    choose(server, mechanism, 0)
    assert server.handle_bare_message(wrong, NOW_MS) == b""
    assert (server.has_failed, server.expects_bare_message, server.principal) == (True, False, None)


def test_messages_are_bare_only_after_version_0(server: SaslServer) -> None:
    choose(server, "PLAIN", 1)
    assert not server.expects_bare_message


def test_authenticate_before_the_handshake(server: SaslServer) -> None:
    assert say(server, plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert server.has_failed


def test_a_second_handshake(server: SaslServer) -> None:
    choose(server, "PLAIN")
    assert choose(server, SCRAM) is ErrorCode.ILLEGAL_SASL_STATE
    assert say(server, plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert server.has_failed


def test_nothing_follows_a_failure(server: SaslServer) -> None:
    choose(server, "PLAIN")
    say(server, plain("alice", "wrong"))
    assert say(server, plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert choose(server, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert not any(server.allows(api_key, NOW_MS) for api_key in range(100))
    assert server.principal is None


def test_second_authentication_is_rejected(server: SaslServer) -> None:
    choose(server, "PLAIN")
    say(server, plain("alice", PASSWORD))
    assert choose(server, "PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert say(server, plain("bob", "b")).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert (server.is_authenticated, server.principal) == (True, "User:alice")


def test_only_login_requests_are_allowed_before_authentication(server: SaslServer) -> None:
    assert [api_key for api_key in range(100) if server.allows(api_key, NOW_MS)] == [17, 18, 36]
    choose(server, "PLAIN")
    assert [api_key for api_key in range(100) if server.allows(api_key, NOW_MS)] == [17, 18, 36]
    say(server, plain("alice", PASSWORD))
    assert all(server.allows(api_key, NOW_MS) for api_key in range(100))


def test_responses_are_kafkas_messages(server: SaslServer) -> None:
    def ask(api_key: int, version: int, body: object) -> object:
        request = Request(RequestHeader(api_key, version, 1, "c", 0), body, Caller(1, 0, "10.0.0.1"))
        return server.handle_request(request, NOW_MS)

    refused = ask(17, 1, SaslHandshakeRequest(version=1, mechanism="GSSAPI"))
    assert refused.error_code == 33  # type: ignore[attr-defined]
    assert refused.mechanisms == ["PLAIN", SCRAM, SCRAM_256]  # type: ignore[attr-defined]
    chosen = ask(17, 1, SaslHandshakeRequest(version=1, mechanism="PLAIN"))
    assert chosen.error_code == 0  # type: ignore[attr-defined]
    done = ask(36, 2, SaslAuthenticateRequest(version=2, auth_bytes=plain("alice", PASSWORD)))
    assert done.error_code == 0  # type: ignore[attr-defined]
    assert type(done).decode(bytes(done.encode(version=2)), version=2).auth_bytes == b""  # type: ignore[attr-defined]
    assert server.handles_api(17)
    assert server.handles_api(36)
    assert not server.handles_api(18)


def test_sasl_requests_are_rejected_without_sasl() -> None:
    for api_key, body in ((17, SaslHandshakeRequest(mechanism="PLAIN")), (36, SaslAuthenticateRequest(auth_bytes=b""))):
        request = Request(RequestHeader(api_key, 1, 1, "c", 0), body, Caller(1, 0, "10.0.0.1"))
        response = asyncio.run(reject_sasl(request))
        assert response.error_code == 34
        assert type(response).decode(bytes(response.encode(version=1)), version=1) == response


@given(
    st.sampled_from(["PLAIN", SCRAM, SCRAM_256]),
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"n,,n=alice,r=x", b"\0alice\0x"])), max_size=3),
)
def test_random_bytes_never_log_in(mechanism: str, messages: list[bytes]) -> None:
    server = new_server(Credentials({}, b"decoy"))
    choose(server, mechanism)
    for message in messages:
        say(server, message)
    assert not server.is_authenticated


def test_the_exchange_of_rfc_7677() -> None:
    """RFC 7677's only example: SCRAM-SHA-256, user `user`, password `pencil`."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    _, stored_key, server_key, _ = ScramMechanism(SCRAM_256).make_auth_info("pencil", 4_096, salt)
    credential = ScramCredential(SCRAM_256, salt, stored_key, server_key, 4_096)
    server = new_server(Credentials({"user": {SCRAM_256: credential}}, b"decoy"), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    choose(server, SCRAM_256)
    first = say(server, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").auth_bytes
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = say(server, b"c=biws," + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert final.auth_bytes == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.principal == "User:user"


def test_user_without_entry_for_the_mechanism_is_unknown_there(credentials: Credentials) -> None:
    """The response is that for an unknown user, down to the length of the salt."""
    assert scram_login(new_server(credentials), "bob", "b") is ErrorCode.NONE
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert scram_login(new_server(credentials), "bob", "b", SCRAM_256) is refused


# -- sessions that end (KIP-368) ---------------------------------------------------------------------------------------

LIFETIME_MS = 60_000


@pytest.fixture
def ending(credentials: Credentials) -> SaslServer:
    """Return a server with a session of PLAIN that lasts a minute."""
    server = new_server(credentials, max_reauth_ms=LIFETIME_MS)
    choose(server, "PLAIN")
    assert say(server, plain("alice", PASSWORD)).session_lifetime_ms == LIFETIME_MS
    return server


def test_session_without_end_has_lifetime_0(server: SaslServer) -> None:
    choose(server, "PLAIN")
    assert say(server, plain("alice", PASSWORD)).session_lifetime_ms == 0
    assert server.allows(3, NOW_MS + 10 * 365 * 86_400_000)


def test_only_reauthentication_is_allowed_after_the_session_end(ending: SaslServer) -> None:
    assert ending.allows(3, NOW_MS + LIFETIME_MS - 1)
    end_ms = NOW_MS + LIFETIME_MS
    assert [api_key for api_key in range(100) if ending.allows(api_key, end_ms)] == [17]
    assert ending.choose_mechanism("PLAIN", 1, end_ms) is ErrorCode.NONE
    assert [api_key for api_key in range(100) if ending.allows(api_key, end_ms)] == [17, 18, 36]
    assert ending.is_authenticated
    assert say(ending, plain("alice", PASSWORD), end_ms).session_lifetime_ms == LIFETIME_MS
    assert ending.allows(3, end_ms + LIFETIME_MS - 1)


def test_reauthentication_as_another_user_is_rejected(ending: SaslServer) -> None:
    assert choose(ending, "PLAIN") is ErrorCode.NONE
    refused = say(ending, plain("bob", "b"))
    assert refused.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (ending.has_failed, ending.is_authenticated, ending.rejection) == (
        True,
        False,
        "a client of User:alice tried to reauthenticate as User:bob",
    )


def test_failed_reauthentication_ends_the_session(ending: SaslServer) -> None:
    choose(ending, "PLAIN")
    assert say(ending, plain("alice", "wrong")).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not any(ending.allows(api_key, NOW_MS) for api_key in range(100))


def test_reauthentication_with_another_mechanism_is_rejected(ending: SaslServer) -> None:
    assert choose(ending, SCRAM) is ErrorCode.ILLEGAL_SASL_STATE
    assert ending.allows(3, NOW_MS)


def test_bare_login_cannot_reauthenticate(ending: SaslServer) -> None:
    assert choose(ending, "PLAIN", 0) is ErrorCode.ILLEGAL_SASL_STATE
    assert not ending.expects_bare_message
    assert ending.allows(3, NOW_MS)


def test_reauthentication_is_limited_to_once_a_second(ending: SaslServer) -> None:
    choose(ending, "PLAIN")
    say(ending, plain("alice", PASSWORD))
    assert ending.choose_mechanism("PLAIN", 1, NOW_MS + 999) is ErrorCode.ILLEGAL_SASL_STATE
    assert ending.allows(3, NOW_MS + 999)
    assert ending.choose_mechanism("PLAIN", 1, NOW_MS + 1_000) is ErrorCode.NONE


def test_the_lifetime_is_in_the_message(ending: SaslServer) -> None:
    choose(ending, "PLAIN")
    body = SaslAuthenticateRequest(version=2, auth_bytes=plain("alice", PASSWORD))
    answer = ending.handle_request(Request(RequestHeader(36, 2, 1, "c", 0), body, Caller(1, 0, "10.0.0.1")), NOW_MS)
    assert type(answer).decode(bytes(answer.encode(version=2)), version=2).session_lifetime_ms == LIFETIME_MS
