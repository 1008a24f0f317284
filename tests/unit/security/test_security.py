"""Security as configured, with TLS over memory instead of a socket."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.errors import InvalidConfigError, RequestError
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.security import Security
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.security.caller import Caller
from sharegroup.security.listener import check_listener
from sharegroup.security.tls import certificate_principal, listener_context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return both ends after the handshake. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [client_end, server_end]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    assert not waiting
    return server_end, client_end


def client_context(pems: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=pems / "cert.pem")


def test_listener_uses_its_certificate(pems: Path) -> None:
    server = listener_context(str(pems / "cert.pem"), str(pems / "key.pem"), "")
    assert server is not None
    server_end, client_end = shake_hands(server, client_context(pems))
    assert client_end.version() in ("TLSv1.2", "TLSv1.3")
    assert certificate_principal(server_end) is None
    assert certificate_principal(None) is None


def test_principal_is_read_from_the_client_certificate(pems: Path) -> None:
    cert, key = str(pems / "cert.pem"), str(pems / "key.pem")
    server = listener_context(cert, key, cert)
    assert server is not None
    client = client_context(pems)
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # in 1.3 the handshake of a client ends before it is rejected
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client)
    client.load_cert_chain(cert, key)
    server_end, _ = shake_hands(server, client)
    assert certificate_principal(server_end) == r"User:CN=localhost,O=Share\, Group,C=DE"


@pytest.mark.parametrize(
    ("cert", "key", "client_ca"),
    [
        ("", "key.pem", ""),
        ("", "", "cert.pem"),
        ("missing.pem", "key.pem", ""),
        ("cert.pem", "missing.pem", ""),
        ("cert.pem", "", ""),
        ("cert.pem", "locked.pem", ""),
        ("cert.pem", "key.pem", "missing.pem"),
        ("cert.pem", "key.pem", "key.pem"),
    ],
)
def test_invalid_tls_files_are_rejected(pems: Path, cert: str, key: str, client_ca: str) -> None:
    paths = [str(pems / name) if name else "" for name in (cert, key, client_ca)]
    with pytest.raises(InvalidConfigError, match=r"gateway\.ssl"):
        listener_context(*paths)


def test_everything_is_off_by_default() -> None:
    security = Security.from_config(GatewayConfig())
    assert security.tls is None
    assert not security.logins
    assert not security.has_list
    assert not security.has_hidden_topics


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "kafka.example.org"])
def test_open_address_requires_authentication_and_a_list(host: str) -> None:
    certificate = {
        "gateway.ssl.certificate.location": "cert.pem"
    }  # the server's own, which does not authenticate clients
    users = {"gateway.sasl.users.location": "users.yaml"}
    authorities = {"gateway.ssl.client.ca.location": "ca.pem"}
    acls = {"gateway.acls.location": "acl.yaml"}

    tokens: dict[str, object] = {
        "gateway.sasl.oauthbearer.jwks.endpoint.url": "file:/keys.json",
        "gateway.sasl.oauthbearer.expected.issuer": "https://login.example.org",
        "gateway.sasl.oauthbearer.expected.audience": "kafka",
    }

    def check(*keys: dict[str, object], takes_tokens: bool = False) -> None:
        values: dict[str, object] = {}
        for each in keys:
            values |= each
        check_listener(GatewayConfig.model_validate(values), "gateway.listener.host", host, takes_tokens)

    for keys in ([], [certificate], [acls], [certificate, acls]):
        with pytest.raises(
            InvalidConfigError, match=f"gateway.listener.host: other machines can reach {host}, without auth"
        ):
            check(*keys)
    for keys in ([users], [certificate, users], [certificate, authorities]):
        with pytest.raises(InvalidConfigError, match=f"can reach {host}, without an access control list"):
            check(*keys)
    check(users, acls)
    check(certificate, authorities, acls)
    check(tokens, acls, takes_tokens=True)
    with pytest.raises(InvalidConfigError, match="without auth"):
        check(tokens, acls)  # the page does not accept them
    check({"gateway.allow.everyone": True})


def test_open_address_is_rejected_at_startup() -> None:
    with pytest.raises(InvalidConfigError, match="other machines can reach"):
        Security.from_config(GatewayConfig.model_validate({"gateway.listener.host": "0.0.0.0"}))
    Security.from_config(
        GatewayConfig.model_validate({"gateway.listener.host": "0.0.0.0", "gateway.allow.everyone": True})
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "LOCALHOST"])
def test_loopback_address_needs_no_security(host: str) -> None:
    assert Security.from_config(GatewayConfig.model_validate({"gateway.listener.host": host})).tls is None


def test_everything_enabled(pems: Path, tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(hash_password("alice", "secret"), encoding="utf-8")
    (tmp_path / "acl.yaml").write_text("[]", encoding="utf-8")
    config = GatewayConfig.model_validate(
        {
            "gateway.ssl.certificate.location": str(pems / "cert.pem"),
            "gateway.ssl.key.location": str(pems / "key.pem"),
            "gateway.sasl.users.location": str(tmp_path / "users.yaml"),
            "gateway.acls.location": str(tmp_path / "acl.yaml"),
        }
    )
    security = Security.from_config(config)
    assert security.tls is not None
    assert security.logins
    first, second = SaslServer(security.logins.enabled), SaslServer(security.logins.enabled)
    for connection in (first, second):
        connection.choose_mechanism("SCRAM-SHA-512", 1, 0)
    hello = b"n,,n=alice,r=x"
    assert first.authenticate(hello, 0) != second.authenticate(hello, 0)  # each has its own nonce
    with pytest.raises(RequestError):
        security.authorize_fetch(Caller(1, 0, "127.0.0.1"), "g")
