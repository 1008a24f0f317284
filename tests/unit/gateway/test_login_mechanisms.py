"""The login mechanisms of a configuration, and invalid configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.config import parse_config
from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.errors import ErrorCode, InvalidConfigError
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.security.authentication.mechanisms import LoginMechanisms
from tests.unit.gateway.logins import AUDIENCE, ISSUER, Issuer, bearer

OAUTH = "gateway.sasl.oauthbearer"
ALL = ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER"]


@pytest.fixture
def users(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "users.yaml"
    path.write_text(hash_password("alice", "secret"), encoding="utf-8")
    return {"gateway.sasl.users.location": str(path)}


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "keys.json"
    path.write_text(Issuer().jwks())
    expected = {f"{OAUTH}.expected.issuer": ISSUER, f"{OAUTH}.expected.audience": AUDIENCE}
    return {f"{OAUTH}.jwks.endpoint.url": path.as_uri(), **expected}


def mechanisms(*keys: dict[str, object]) -> LoginMechanisms:
    merged: dict[str, object] = {}
    for some in keys:
        merged |= some
    return LoginMechanisms(GatewayConfig.model_validate(merged))


def offered(logins: LoginMechanisms) -> list[str]:
    """Return the mechanisms that a client may choose."""
    return [
        name for name in [*ALL, "GSSAPI"] if SaslServer(logins.enabled).choose_mechanism(name, 1, 0) is ErrorCode.NONE
    ]


def test_no_mechanism_without_users_and_keys() -> None:
    assert not mechanisms()


def test_all_usable_mechanisms_are_enabled_by_default(users: dict[str, object], tokens: dict[str, object]) -> None:
    assert offered(mechanisms(users)) == ALL[:3]
    assert offered(mechanisms(tokens)) == ALL[3:]
    assert offered(mechanisms(users, tokens)) == ALL


def test_configuration_may_enable_some_mechanisms(users: dict[str, object], tokens: dict[str, object]) -> None:
    only = {"gateway.sasl.enabled.mechanisms": "OAUTHBEARER, SCRAM-SHA-256"}
    assert offered(mechanisms(users, tokens, only)) == ["SCRAM-SHA-256", "OAUTHBEARER"]


@pytest.mark.parametrize(
    ("name", "needed"),
    [("PLAIN", "gateway.sasl.users.location"), ("OAUTHBEARER", f"{OAUTH}.jwks.endpoint.url")],
)
def test_mechanism_needs_users_or_keys(name: str, needed: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"{name} needs {needed}"):
        mechanisms({"gateway.sasl.enabled.mechanisms": name})


@pytest.mark.parametrize("name", ["issuer", "audience"])
def test_issuer_and_audience_are_required(tokens: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidConfigError, match=rf"{OAUTH}\.expected\.{name}:"):
        mechanisms(tokens, {f"{OAUTH}.expected.{name}": ""})


def test_key_file_must_exist(tokens: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        mechanisms(tokens, {f"{OAUTH}.jwks.endpoint.url": (tmp_path / "none.json").as_uri()})


def test_key_server_may_be_unavailable_at_startup(tokens: dict[str, object]) -> None:
    """It is queried at the first login. No token is accepted until it has responded."""
    logins = mechanisms(tokens, {f"{OAUTH}.jwks.endpoint.url": "https://127.0.0.1:1/keys"})
    token = bearer(Issuer().token())
    assert logins.has_unknown_key(token)
    server = SaslServer(logins.enabled)
    server.choose_mechanism("OAUTHBEARER", 1, 0)
    assert server.authenticate(token, 0).auth_bytes == b'{"status":"invalid_token"}'


@pytest.mark.parametrize("message", [b"", b"\xff", b"n,,", bearer("no-token")])
def test_malformed_token_needs_no_key(tokens: dict[str, object], users: dict[str, object], message: bytes) -> None:
    assert not mechanisms(tokens).has_unknown_key(message)
    assert not mechanisms(users).has_unknown_key(bearer(Issuer().token()))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (f"{OAUTH}.algorithms", "RS256,none", "none is not one of RS256"),
        (f"{OAUTH}.algorithms", ["HS256"], "HS256 is not one of RS256"),
        (f"{OAUTH}.algorithms", "", "should have at least 1 item"),
        (f"{OAUTH}.expected.audience", 7, "Not a list of names"),
        ("gateway.sasl.enabled.mechanisms", "PLAIN,GSSAPI", "GSSAPI is not one of PLAIN"),
    ],
)
def test_unsupported_names_are_rejected(key: str, value: object, problem: str) -> None:
    with pytest.raises(InvalidConfigError) as error:
        parse_config({"gateway": {key: value}}, "test")
    assert problem in str(error.value)


def test_lists_may_be_yaml_or_separated_by_commas() -> None:
    as_list = parse_config({"gateway": {f"{OAUTH}.expected.audience": ["a", "b"]}}, "test")
    as_text = parse_config({"gateway": {f"{OAUTH}.expected.audience": "a, b"}}, "test")
    assert as_list.gateway.token_audiences == as_text.gateway.token_audiences == ("a", "b")
