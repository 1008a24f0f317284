"""SASL: scramp's client and plain bytes against our server; nothing but a right password in the right order gets in."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from scramp import ScramClient, ScramException

from sharegroup.errors import ErrorCode
from sharegroup.gateway.security.credentials import Credentials, hash_password, load_credentials
from sharegroup.gateway.security.sasl_server import MAX_MESSAGE_BYTES, MECHANISMS, SaslServer, SaslState, sasl_is_off
from sharegroup.gateway.wire.headers import RequestHeader
from sharegroup.gateway.wire.request import Caller, Request

SCRAM = "SCRAM-SHA-512"
PASSWORD = "pässword, with = and ,"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    path = tmp_path_factory.mktemp("sasl") / "users.yaml"
    path.write_text(f"{hash_password('alice', PASSWORD)}\n{hash_password('bob', 'b')}\n", encoding="utf-8")
    return load_credentials(str(path), b"decoy")


@pytest.fixture
def server(credentials: Credentials) -> SaslServer:
    return SaslServer(credentials, "server-nonce")


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


def scram_login(server: SaslServer, user: str, password: str) -> ErrorCode:
    """Log in; the code of the first answer that refuses, or NONE."""
    assert server.handshake(SCRAM) is ErrorCode.NONE
    client = ScramClient([SCRAM], user, password)
    first = server.authenticate(client.get_client_first().encode())
    if first.error_code:
        return first.error_code
    client.set_server_first(first.auth_bytes.decode())
    final = server.authenticate(client.get_client_final().encode())
    if not final.error_code:
        client.set_server_final(final.auth_bytes.decode())  # the server has proved itself as well
    return final.error_code


def test_scram(server: SaslServer) -> None:
    assert scram_login(server, "alice", PASSWORD) is ErrorCode.NONE
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


def test_plain(server: SaslServer) -> None:
    assert server.handshake("PLAIN") is ErrorCode.NONE
    assert server.authenticate(plain("alice", PASSWORD)) == (ErrorCode.NONE, None, b"")
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


@pytest.mark.parametrize(("user", "password"), [("alice", "b"), ("bob", PASSWORD), ("carol", "b"), ("alice", "")])
def test_a_wrong_password_and_an_unknown_user_look_the_same(credentials: Credentials, user: str, password: str) -> None:
    over_scram = SaslServer(credentials, "server-nonce")
    assert scram_login(over_scram, user, password) is ErrorCode.SASL_AUTHENTICATION_FAILED
    over_plain = SaslServer(credentials, "server-nonce")
    over_plain.handshake("PLAIN")
    refused = over_plain.authenticate(plain(user, password))
    assert refused.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    over_plain = SaslServer(credentials, "server-nonce")
    over_plain.handshake("PLAIN")
    assert over_plain.authenticate(plain("nobody", "nothing")) == refused
    for server in (over_scram, over_plain):
        assert server.has_failed
        assert server.principal is None


def test_an_unknown_user_is_challenged_with_the_same_salt_each_time(credentials: Credentials) -> None:
    challenges = set()
    for _ in range(2):
        server = SaslServer(credentials, "server-nonce")
        server.handshake(SCRAM)
        challenges.add(server.authenticate(b"n,,n=carol,r=client-nonce").auth_bytes)
    assert len(challenges) == 1
    assert b"i=8192" in challenges.pop()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0" + PASSWORD.encode() + b"\0",
        b"bob\0alice\0" + PASSWORD.encode(),  # in another's name
        b"\0\0",
        b"\0alice\0\x01",
        b"\xff\0alice\0" + PASSWORD.encode(),
        plain("alice", PASSWORD) + b"x" * MAX_MESSAGE_BYTES,
    ],
)
def test_malformed_plain(server: SaslServer, message: bytes) -> None:
    server.handshake("PLAIN")
    assert server.authenticate(message).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


def test_plain_may_name_the_user_twice(server: SaslServer) -> None:
    server.handshake("PLAIN")
    assert server.authenticate(plain("alice", PASSWORD, "alice")).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"n,,n=alice", b"p=tls-unique,,n=alice,r=x", b"n,a=bob,n=alice,r=x", b"\xff\xfe", b"n,,n=al=ice,r=x"],
)
def test_malformed_scram(server: SaslServer, message: bytes) -> None:
    server.handshake(SCRAM)
    assert server.authenticate(message).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


@pytest.mark.parametrize("final", [b"", b"c=biws,r=wrong,p=AAAA", b"c=biws,r=xserver-nonce,p=!", b"\xff"])
def test_malformed_scram_final(server: SaslServer, final: bytes) -> None:
    server.handshake(SCRAM)
    assert server.authenticate(b"n,,n=alice,r=x").error_code is ErrorCode.NONE
    assert server.authenticate(final).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert server.has_failed


def test_a_proof_of_another_exchange_is_worth_nothing(credentials: Credentials) -> None:
    client = ScramClient([SCRAM], "alice", PASSWORD)
    overheard = SaslServer(credentials, "first-nonce")
    overheard.handshake(SCRAM)
    client.set_server_first(overheard.authenticate(client.get_client_first().encode()).auth_bytes.decode())
    proof = client.get_client_final().encode()
    assert overheard.authenticate(proof).error_code is ErrorCode.NONE
    replayed = SaslServer(credentials, "second-nonce")
    replayed.handshake(SCRAM)
    replayed.authenticate(f"n,,n=alice,r={client.c_nonce}".encode())
    assert replayed.authenticate(proof).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_server_s_proof_needs_the_password(server: SaslServer) -> None:
    client = ScramClient([SCRAM], "alice", PASSWORD)
    server.handshake(SCRAM)
    client.set_server_first(server.authenticate(client.get_client_first().encode()).auth_bytes.decode())
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=AAAA")


def test_an_unknown_mechanism_may_be_followed_by_a_known_one(server: SaslServer) -> None:
    assert server.handshake("GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert server.handshake("plain") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert server.handshake("PLAIN") is ErrorCode.NONE


def test_bare_messages_after_a_handshake_of_version_0(server: SaslServer) -> None:
    assert not server.takes_bare_messages
    assert server.handshake("GSSAPI", version=0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert not server.takes_bare_messages
    assert server.handshake("PLAIN", version=0) is ErrorCode.NONE
    assert server.takes_bare_messages
    assert server.bare_message(plain("alice", PASSWORD)) == b""
    assert not server.takes_bare_messages
    assert (server.state, server.principal) == (SaslState.AUTHENTICATED, "User:alice")


def test_bare_messages_of_scram(server: SaslServer) -> None:
    assert server.handshake(SCRAM, version=0) is ErrorCode.NONE
    client = ScramClient([SCRAM], "alice", PASSWORD)
    client.set_server_first(server.bare_message(client.get_client_first().encode()).decode())
    assert server.takes_bare_messages
    client.set_server_final(server.bare_message(client.get_client_final().encode()).decode())
    assert (server.takes_bare_messages, server.principal) == (False, "User:alice")


@pytest.mark.parametrize(("mechanism", "wrong"), [("PLAIN", plain("alice", "b")), (SCRAM, b"n,,n=alice"), (SCRAM, b"")])
def test_a_wrong_bare_message_has_no_answer(server: SaslServer, mechanism: str, wrong: bytes) -> None:
    server.handshake(mechanism, version=0)
    assert server.bare_message(wrong) == b""
    assert (server.has_failed, server.takes_bare_messages, server.principal) == (True, False, None)


def test_messages_are_bare_after_no_other_version(server: SaslServer) -> None:
    server.handshake("PLAIN", version=1)
    assert not server.takes_bare_messages


def test_authenticate_before_the_handshake(server: SaslServer) -> None:
    assert server.authenticate(plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert server.has_failed


def test_a_second_handshake(server: SaslServer) -> None:
    server.handshake("PLAIN")
    assert server.handshake(SCRAM) is ErrorCode.ILLEGAL_SASL_STATE
    assert server.authenticate(plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert server.has_failed


def test_nothing_follows_a_failure(server: SaslServer) -> None:
    server.handshake("PLAIN")
    server.authenticate(plain("alice", "wrong"))
    assert server.authenticate(plain("alice", PASSWORD)).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert server.handshake("PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert not any(server.allows(api_key) for api_key in range(100))
    assert server.principal is None


def test_authentication_is_once(server: SaslServer) -> None:
    server.handshake("PLAIN")
    server.authenticate(plain("alice", PASSWORD))
    assert server.handshake("PLAIN") is ErrorCode.ILLEGAL_SASL_STATE
    assert server.authenticate(plain("bob", "b")).error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert (server.is_authenticated, server.principal) == (True, "User:alice")


def test_only_the_handshake_is_served_before(server: SaslServer) -> None:
    assert [api_key for api_key in range(100) if server.allows(api_key)] == [17, 18, 36]
    server.handshake("PLAIN")
    assert [api_key for api_key in range(100) if server.allows(api_key)] == [17, 18, 36]
    server.authenticate(plain("alice", PASSWORD))
    assert all(server.allows(api_key) for api_key in range(100))


def test_kafka_s_messages(server: SaslServer) -> None:
    def ask(api_key: int, version: int, body: object) -> object:
        return server.handle(Request(RequestHeader(api_key, version, 1, "c", 0), body, Caller(1, 0, "10.0.0.1")))

    refused = ask(17, 1, SaslHandshakeRequest(version=1, mechanism="GSSAPI"))
    assert refused.error_code == 33  # type: ignore[attr-defined]
    assert refused.mechanisms == list(MECHANISMS)  # type: ignore[attr-defined]
    chosen = ask(17, 1, SaslHandshakeRequest(version=1, mechanism="PLAIN"))
    assert chosen.error_code == 0  # type: ignore[attr-defined]
    done = ask(36, 2, SaslAuthenticateRequest(version=2, auth_bytes=plain("alice", PASSWORD)))
    assert done.error_code == 0  # type: ignore[attr-defined]
    assert type(done).decode(bytes(done.encode(version=2)), version=2).auth_bytes == b""  # type: ignore[attr-defined]
    assert server.is_sasl(17)
    assert server.is_sasl(36)
    assert not server.is_sasl(18)


def test_where_sasl_is_off() -> None:
    for api_key, body in ((17, SaslHandshakeRequest(mechanism="PLAIN")), (36, SaslAuthenticateRequest(auth_bytes=b""))):
        request = Request(RequestHeader(api_key, 1, 1, "c", 0), body, Caller(1, 0, "10.0.0.1"))
        response = asyncio.run(sasl_is_off(request))
        assert response.error_code == 34
        assert type(response).decode(bytes(response.encode(version=1)), version=1) == response


@given(
    st.sampled_from(MECHANISMS),
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"n,,n=alice,r=x", b"\0alice\0x"])), max_size=3),
)
def test_no_bytes_get_in(mechanism: str, messages: list[bytes]) -> None:
    server = SaslServer(Credentials({}, b"decoy"), "server-nonce")
    server.handshake(mechanism)
    for message in messages:
        server.authenticate(message)
    assert not server.is_authenticated
