"""Logins over real sockets: tokens, sessions that expire, files that change, and log lines."""

from __future__ import annotations

import asyncio
import http.server
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from scramp import ScramClient

from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.gateway.gateway_metrics import GatewayMetrics
from sharegroup.gateway.server import Gateway
from sharegroup.gateway.wire.request import Request
from sharegroup.monitoring.exporter.metrics_server import MetricsServer
from sharegroup.security.authentication import mechanisms
from sharegroup.security.authentication.credentials import hash_password
from tests.harness.event_loop import advance, until
from tests.processes.served_clients import NODE_ID, Client, Serve
from tests.self_signed import make_pems
from tests.unit.gateway.logins import AUDIENCE, ISSUER, Issuer, bearer

PASSWORD, GUESSED = "s3cret-of-alice", "gue55ed"
OAUTHBEARER, INVALID_TOKEN = "OAUTHBEARER", b'{"status":"invalid_token"}'
PREFIX = "gateway.sasl.oauthbearer"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer("first")


@pytest.fixture
def tokens(tmp_path: Path, issuer: Issuer) -> dict[str, object]:
    """Return the configuration of tokens and users."""
    (tmp_path / "keys.json").write_text(issuer.jwks())
    line = hash_password("alice", PASSWORD, ("SCRAM-SHA-512", "SCRAM-SHA-256"))
    (tmp_path / "users.yaml").write_text(line, encoding="utf-8")
    return {
        "gateway.sasl.users.location": str(tmp_path / "users.yaml"),
        f"{PREFIX}.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
        f"{PREFIX}.expected.issuer": ISSUER,
        f"{PREFIX}.expected.audience": AUDIENCE,
        f"{PREFIX}.clock.skew.seconds": 0,
    }


def sasl_of(gateway: Gateway) -> list[SaslServer]:
    """Return the logins of all connections."""
    return [connection._requests._login._sasl for connection in gateway.parts.connections]  # type: ignore[attr-defined]


Scripted = Callable[[Gateway, int], None]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Let a gateway respond without brokers to a client's first requests: it is the only broker, without topics."""

    async def api_versions(_: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
        offered = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=v[0], max_version=v[1])
            for key, v in offered.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys, supported_features=[], finalized_features=[])

    def script(gateway: Gateway, port: int) -> None:
        async def metadata(_: Request[MetadataRequest]) -> MetadataResponse:
            broker = MetadataResponse.MetadataResponseBroker(node_id=NODE_ID, host="127.0.0.1", port=port, rack=None)
            return MetadataResponse(brokers=[broker], cluster_id="cluster", controller_id=NODE_ID, topics=[])

        routes = gateway.parts._service.routes
        monkeypatch.setitem(routes, MetadataRequest.API_KEY, (MetadataRequest, metadata))
        monkeypatch.setitem(routes, ApiVersionsRequest.API_KEY, (ApiVersionsRequest, api_versions))

    return script


async def by_token(client: Client, token: str) -> Any:
    """Return the response to a token."""
    await client.connect()
    assert await client.handshake(OAUTHBEARER) == 0
    return await say(client, bearer(token))


async def say(client: Client, message: bytes) -> Any:
    return await client.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, 2)


async def settle(gateway: Gateway) -> None:
    """Check for changes twice, as a running gateway does."""
    for _ in range(2):
        await asyncio.to_thread(gateway.parts.reload_security)


def principals(gateway: Gateway) -> set[str]:
    return {connection._requests.caller.principal for connection in gateway.parts.connections}  # type: ignore[attr-defined]


async def test_login_by_a_token(tokens: dict[str, object], issuer: Issuer, serve: Serve) -> None:
    gateway, client = await serve(tokens)
    answer = await by_token(client, issuer.token())
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 500_000 < answer.session_lifetime_ms <= 600_000
    assert principals(gateway) == {"User:alice"}
    assert await client.is_served()


async def test_login_by_a_long_token(tokens: dict[str, object], issuer: Issuer, serve: Serve) -> None:
    """It has, for example, a hundred groups."""
    _, client = await serve(tokens)
    assert int((await by_token(client, issuer.token(groups=["x" * 100] * 100))).error_code) == 0


async def test_rejected_token(tokens: dict[str, object], issuer: Issuer, serve: Serve) -> None:
    _, client = await serve(tokens)
    answer = await by_token(client, issuer.token(aud="others"))
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, INVALID_TOKEN)
    assert (await say(client, b"\x01")).error_code == 58
    assert await client.is_closed()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_passwords_work_in_addition_to_tokens(tokens: dict[str, object], mechanism: str, serve: Serve) -> None:
    gateway, client = await serve(tokens)
    await client.connect()
    assert await client.handshake(mechanism) == 0
    scram = ScramClient([mechanism], "alice", PASSWORD)
    _, first = await client.authenticate(scram.get_client_first().encode())
    scram.set_server_first(first.decode())
    _, final = await client.authenticate(scram.get_client_final().encode())
    scram.set_server_final(final.decode())
    assert principals(gateway) == {"User:alice"}


async def test_only_enabled_mechanisms_are_offered(tokens: dict[str, object], serve: Serve) -> None:
    _, client = await serve({**tokens, "gateway.sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    await client.connect()
    mechanisms = "PLAIN", "SCRAM-SHA-512", OAUTHBEARER, "SCRAM-SHA-256"
    assert [await client.handshake(name) for name in mechanisms] == [33, 33, 33, 0]


# -- sessions that expire ----------------------------------------------------------------------------------------------


async def test_client_must_log_in_again_after_its_session(
    tokens: dict[str, object], issuer: Issuer, serve: Serve
) -> None:
    gateway, client = await serve(tokens)
    clock = gateway.parts.logins.now_ms
    assert (await by_token(client, issuer.token())).error_code == 0
    assert await client.is_served()
    gateway.parts.logins.now_ms = lambda: clock() + 590_000
    assert await client.is_served()
    assert await client.handshake(OAUTHBEARER) == 0
    assert (await say(client, bearer(issuer.token(lifetime_s=1_200)))).session_lifetime_ms > 600_000
    gateway.parts.logins.now_ms = lambda: clock() + 1_190_000
    assert await client.is_served()
    gateway.parts.logins.now_ms = lambda: clock() + 1_210_000
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await client.is_served()
    assert await client.is_closed()


async def test_client_may_log_in_again_after_its_session_expired(
    tokens: dict[str, object], issuer: Issuer, serve: Serve
) -> None:
    gateway, client = await serve({**tokens, "gateway.first.request.timeout.ms": 100})
    clock = gateway.parts.logins.now_ms
    assert (await by_token(client, issuer.token())).error_code == 0
    gateway.parts.logins.now_ms = lambda: clock() + 610_000
    advance(1)
    gateway.parts.connections.close_idle()
    assert await client.handshake(OAUTHBEARER) == 0
    advance(1)
    gateway.parts.connections.close_idle()  # a client that logs in again is not idle
    assert (await say(client, bearer(issuer.token(lifetime_s=1_200)))).error_code == 0
    assert await client.is_served()
    assert await client.handshake("PLAIN") == 34
    assert await client.is_served()


async def test_session_of_a_password_ends_if_configured(tokens: dict[str, object], serve: Serve) -> None:
    _, client = await serve({**tokens, "gateway.connections.max.reauth.ms": 3_600_000})
    await client.connect()
    await client.handshake()
    assert int((await say(client, f"\0alice\0{PASSWORD}".encode())).session_lifetime_ms) == 3_600_000


@pytest.mark.thorough
async def test_librdkafka_renews_its_session(
    tokens: dict[str, object], issuer: Issuer, scripted: Scripted, serve: Serve
) -> None:
    """It uses its connection, before the session expires, with a new token."""
    lifetime_s = 20

    def token(_: str) -> tuple[str, float]:
        return issuer.token(lifetime_s=lifetime_s), time.time() + lifetime_s

    def ask_until(is_done: threading.Event, port: int) -> None:
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": OAUTHBEARER, "oauth_cb": token}
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **sasl})
        while not is_done.is_set():
            admin.poll(0.1)  # renews tokens
            admin.list_topics(timeout=30)

    gateway, client = await serve(tokens)
    scripted(gateway, client.port)
    is_done = threading.Event()
    asking = asyncio.ensure_future(asyncio.to_thread(ask_until, is_done, client.port))
    await until(lambda: any(each._reauthenticated_ms and each.is_authenticated for each in sasl_of(gateway)))
    renewed = {each.principal for each in sasl_of(gateway) if each._reauthenticated_ms}
    is_done.set()
    await asking
    assert renewed == {"User:alice"}


# -- what changes ------------------------------------------------------------------------------------------------------


async def test_changes_of_users_apply_to_logins(tokens: dict[str, object], tmp_path: Path, serve: Serve) -> None:
    async def log_in(client: Client, user: str) -> int:
        await client.connect()
        await client.handshake()
        return (await client.authenticate(f"\0{user}\0{PASSWORD}".encode()))[0]

    gateway, client = await serve(tokens)
    assert await log_in(client, "bob") == 58
    users = tmp_path / "users.yaml"
    users.write_text(hash_password("bob", PASSWORD), encoding="utf-8")
    await settle(gateway)
    assert await log_in(client.another(), "bob") == 0
    assert await log_in(client.another(), "alice") == 58
    users.write_text("bob: nonsense", encoding="utf-8")
    await settle(gateway)
    assert await log_in(client.another(), "bob") == 0


async def test_new_key_is_loaded_when_a_token_needs_it(
    tokens: dict[str, object], issuer: Issuer, tmp_path: Path, serve: Serve
) -> None:
    _, client = await serve(tokens)
    issuer.add("second")
    assert bytes((await by_token(client, issuer.token("second"))).auth_bytes) == INVALID_TOKEN
    (tmp_path / "keys.json").write_text(issuer.jwks())
    assert bytes((await by_token(client.another(), issuer.token("second"))).auth_bytes) == b""


@pytest.fixture
def keys_server(pems: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """Return (address, requested paths) of an HTTPS server of keys; `/moved` redirects to them."""
    asked: list[str] = []
    monkeypatch.setattr(mechanisms, "fetch_keys", partial(mechanisms.fetch_keys, timeout_s=600))
    monkeypatch.setattr(mechanisms, "KEYS_PAUSE_S", 1_000_000)

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = issuer.jwks().encode()
            self.send_response(200 if self.path == "/keys" else 302)
            self.send_header("location", "/keys")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Nothing on standard error."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pems / "cert.pem", pems / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(pems / "cert.pem"))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"https://localhost:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


async def test_keys_are_fetched_by_https(
    tokens: dict[str, object], keys_server: tuple[str, list[str]], issuer: Issuer, serve: Serve
) -> None:
    """The first token causes the request; a token with an unknown key does not cause another one right away."""
    address, asked = keys_server

    _, client = await serve({**tokens, f"{PREFIX}.jwks.endpoint.url": f"{address}/keys"})
    assert bytes((await by_token(client, issuer.token())).auth_bytes) == b""
    for key_id in ("k0", "k1", "k2"):
        forged = Issuer(key_id).token(key_id)
        assert bytes((await by_token(client.another(), forged)).auth_bytes) == INVALID_TOKEN
    assert asked == ["/keys"]


async def test_other_responses_are_not_used_as_keys(
    tokens: dict[str, object],
    keys_server: tuple[str, list[str]],
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    serve: Serve,
) -> None:
    address, asked = keys_server

    _, client = await serve({**tokens, f"{PREFIX}.jwks.endpoint.url": f"{address}/moved"})
    assert bytes((await by_token(client, issuer.token())).auth_bytes) == INVALID_TOKEN
    assert asked == ["/moved"]
    assert "redirects are not followed" in caplog.text


async def test_new_certificate_applies_to_new_connections(pems: Path, tmp_path: Path, serve: Serve) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((pems / name).read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    make_pems(other)

    keys = {"certificate": "cert.pem", "key": "key.pem"}
    config = {f"gateway.ssl.{name}.location": str(tmp_path / file) for name, file in keys.items()}
    gateway, client = await serve(config)
    client.context = ssl.create_default_context(cafile=pems / "cert.pem")
    await client.connect()
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((other / name).read_bytes())
        await settle(gateway)  # the certificate without its key is rejected and has no effect
    later = client.another()
    later.context = client.context
    with pytest.raises(ssl.SSLCertVerificationError):
        await later.connect()
    newest = client.another()
    newest.context = ssl.create_default_context(cafile=other / "cert.pem")
    await newest.connect()
    assert await client.is_served()
    assert await newest.is_served()
    assert gateway.parts._security.tls is not None


# -- log lines ---------------------------------------------------------------------------------------------------------


async def test_each_login_is_logged_without_secrets(
    tokens: dict[str, object], issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture, serve: Serve
) -> None:
    """All loggers at level DEBUG, the audit log, the metrics, and the reprs of the parts contain no secret."""
    caplog.set_level(logging.DEBUG)
    token, forged = issuer.token(), issuer.token(exp=1)

    gateway, client = await serve(tokens)
    await client.connect()
    await client.handshake()
    await client.authenticate(f"\0alice\0{PASSWORD}".encode())
    guess = await client.another().connect()
    await guess.handshake()
    await guess.authenticate(f"\0alice\0{GUESSED}".encode())
    bare = await client.another().connect()
    await bare.handshake(version=0)
    bare.send(len(message := f"\0alice\0{PASSWORD}".encode()).to_bytes(4, "big") + message)
    assert await bare.frame() == b""
    await by_token(client.another(), token)
    late = client.another()
    await by_token(late, forged)
    await say(late, b"\x01")
    parts = gateway.parts
    shown = [repr(thing) for thing in (parts, parts._security, parts.logins, parts.logins.mechanisms, gateway._config)]
    for connection in parts.connections:
        login = connection._requests._login  # type: ignore[attr-defined]
        shown += [repr(connection), repr(login), repr(login._sasl), repr(vars(login._sasl))]
    metrics = GatewayMetrics(parts, asyncio.get_running_loop().time)
    server = MetricsServer(metrics.families, metrics.health_problems, metrics.readiness_problems)
    shown.append(await asyncio.to_thread(lambda: repr(list(metrics.families()))))
    server.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "sharegroup.audit"]
    assert lines == [
        "login outcome=accepted principal=User:alice address=127.0.0.1 mechanism=PLAIN",
        "login outcome=refused claimed=alice address=127.0.0.1 mechanism=PLAIN"
        ' reason="the user is unknown or the password is wrong"',
        "login outcome=accepted principal=User:alice address=127.0.0.1 mechanism=PLAIN",
        "login outcome=accepted principal=User:alice address=127.0.0.1 mechanism=OAUTHBEARER",
        "login outcome=refused address=127.0.0.1 mechanism=OAUTHBEARER"
        ' reason="the token is invalid (ExpiredSignatureError)"',
    ]
    stored = yaml.safe_load((tmp_path / "users.yaml").read_text())["alice"]
    secrets = [PASSWORD, GUESSED, token, forged, token.rpartition(".")[2]]
    secrets += [part for entry in stored for part in entry.replace("$", ":").split(":")[2:]]
    assert not [secret for secret in secrets if secret in "\n".join([*shown, caplog.text])]


async def test_rejected_certificate_is_logged(pems: Path, caplog: pytest.LogCaptureFixture, serve: Serve) -> None:
    caplog.set_level(logging.INFO, "sharegroup.audit")
    keys = {"certificate": "cert.pem", "key": "key.pem", "client.ca": "cert.pem"}
    _, client = await serve({f"gateway.ssl.{name}.location": str(pems / file) for name, file in keys.items()})
    client.context = ssl.create_default_context(cafile=pems / "cert.pem")
    client.context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 ends the client's handshake before it is rejected
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await client.connect()
    named = client.another()
    named.context = ssl.create_default_context(cafile=pems / "cert.pem")
    named.context.load_cert_chain(pems / "cert.pem", pems / "key.pem")
    await named.connect()
    assert await named.is_served()
    assert [record.getMessage() for record in caplog.records if record.name == "sharegroup.audit"] == [
        "login outcome=refused address=127.0.0.1 mechanism=TLS reason=PEER_DID_NOT_RETURN_A_CERTIFICATE",
        r'login outcome=accepted principal="User:CN=localhost,O=Share\\, Group,C=DE" address=127.0.0.1 mechanism=TLS',
    ]
