"""The file of users: entries of `hash_password` are read; others are rejected without logging them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from sharegroup.errors import InvalidConfigError
from sharegroup.security.authentication.credentials import (
    SCRAM_MECHANISMS,
    Credentials,
    ScramCredential,
    hash_password,
    load_credentials,
)


def load(tmp_path: Path, text: str) -> Credentials:
    path = tmp_path / "users.yaml"
    path.write_text(text, encoding="utf-8")
    return load_credentials(str(path), b"decoy")


def test_password_is_verified_and_not_stored(tmp_path: Path) -> None:
    line = hash_password("alice", "secret")
    assert "secret" not in line
    assert "\n" not in line
    credential = load(tmp_path, line).get_credential("alice")
    assert credential.matches("secret")
    assert not credential.matches("Secret")


def test_each_line_has_its_own_salt() -> None:
    assert hash_password("alice", "secret") != hash_password("alice", "secret")


@pytest.mark.parametrize("user", ["alice", "o'hara: #1", "null", "123", "jürgen"])
def test_any_user_name_survives_the_file(tmp_path: Path, user: str) -> None:
    assert load(tmp_path, hash_password(user, "secret")).get_credential(user).matches("secret")


def test_no_password_matches_an_unknown_user(tmp_path: Path) -> None:
    decoy = load(tmp_path, hash_password("alice", "secret")).get_credential("bob")
    assert not decoy.matches("secret")
    assert not decoy.matches("")


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("alice", ""), ("alice", "\x00")])
def test_invalid_passwords_are_rejected(user: str, password: str) -> None:
    with pytest.raises(ValueError, match=r"empty|not allowed"):
        hash_password(user, password)


@pytest.mark.parametrize(
    "entry",
    [
        "hunter2",
        "{plain: hunter2}",
        "12",
        "SCRAM-SHA-512$8192:hunter2$hunter2:hunter2",
        "SCRAM-SHA-512$8192:" + "A" * 24 + "$AAAA:AAAA",
        hash_password("x", "y").split(": ", 1)[1].replace("$8192:", "$1000:"),
        hash_password("x", "y").split(": ", 1)[1].replace("SCRAM-SHA-512", "SCRAM-SHA-256"),
        "[]",
        f"[{hash_password('x', 'y').split(': ', 1)[1]}, hunter2]",
        f"[{hash_password('x', 'y').split(': ', 1)[1]}, {hash_password('x', 'z').split(': ', 1)[1]}]",
    ],
)
def test_invalid_entry_is_rejected_and_not_shown(tmp_path: Path, entry: str) -> None:
    good = hash_password("bob", "secret")
    with pytest.raises(InvalidConfigError) as error:
        load(tmp_path, f"alice: {entry}\n{good}")
    assert len(error.value.problems) == 1
    assert "'alice'" in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "alice", "{", "\0"])
def test_file_that_is_not_a_mapping_is_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfigError):
        load(tmp_path, text)


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        load_credentials(str(tmp_path / "none.yaml"), b"decoy")


def test_a_user_may_have_both_mechanisms(tmp_path: Path) -> None:
    credentials = load(tmp_path, hash_password("alice", "secret", ("SCRAM-SHA-256", "SCRAM-SHA-512")))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert credentials.get_credential("alice", mechanism).mechanism == mechanism
        assert credentials.get_credential("alice", mechanism).matches("secret")
        assert not credentials.get_credential("bob", mechanism).matches("secret")
    assert credentials.get_credential("alice").mechanism == "SCRAM-SHA-512"  # for PLAIN, the stronger


def test_check_of_an_unknown_user_takes_as_long_as_of_others(tmp_path: Path) -> None:
    credentials = load(tmp_path, hash_password("alice", "secret", ("SCRAM-SHA-256",)))
    assert (
        credentials.get_credential("alice").mechanism == credentials.get_credential("bob").mechanism == "SCRAM-SHA-256"
    )


def entry(mechanism: str, iterations: int, salt_bytes: int = 32) -> str:
    """Return an entry as another tool creates it."""
    parts = SCRAM_MECHANISMS[mechanism].make_auth_info("secret", iterations, bytes(salt_bytes))[:3]
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in parts)
    return f"{mechanism}${iterations}:{salt}${stored_key}:{server_key}"


def form(credential: ScramCredential) -> tuple[str, int, int]:
    """Return what a client can observe: the duration of a check, and the fields of the challenge."""
    return credential.mechanism, credential.iterations, len(credential.salt)


@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_unknown_users_have_the_forms_of_known_users(tmp_path: Path, mechanism: str | None) -> None:
    """Neither the duration of a failed login nor the challenge reveals which users exist."""
    entries = [entry("SCRAM-SHA-512", 4_096), entry("SCRAM-SHA-512", 8_192, 12), entry("SCRAM-SHA-256", 9_000)]
    credentials = load(tmp_path, "".join(f"{user}: {line}\n" for user, line in zip("abc", entries, strict=True)))
    known = {form(credentials.get_credential(user, mechanism)) for user in "abc"}
    unknown = {form(credentials.get_credential(f"nobody {number}", mechanism)) for number in range(100)}
    assert known <= unknown
    assert len(unknown) == {None: 3, "SCRAM-SHA-512": 2, "SCRAM-SHA-256": 1}[mechanism]
    once, again = (credentials.get_credential("nobody", mechanism) for _ in range(2))
    assert once == again
    assert credentials.get_credential("another", mechanism).salt[:12] != once.salt[:12]


def test_mechanism_without_users_has_the_usual_challenge(tmp_path: Path) -> None:
    credentials = load(tmp_path, f"carol: {entry('SCRAM-SHA-256', 4_096)}")
    usual = load(tmp_path, hash_password("alice", "secret")).get_credential("alice")
    found = {form(credentials.get_credential(user, "SCRAM-SHA-512")) for user in ("carol", "nobody")}
    assert found == {form(usual)}


def test_yaml_error_does_not_show_the_contents(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="line 3") as error:
        load(tmp_path, "alice: x\nbob: [hunter2: {\n")
    assert "hunter2" not in str(error.value)


def test_repr_of_a_credential_hides_its_contents(tmp_path: Path) -> None:
    line = hash_password("alice", "secret")
    credentials = load(tmp_path, line)
    shown = repr(credentials.get_credential("alice")) + repr(credentials) + str([credentials.get_credential("alice")])
    assert "credential for SCRAM-SHA-512" in shown
    credential = credentials.get_credential("alice")
    for secret in (credential.salt, credential.stored_key, credential.server_key):
        assert repr(secret) not in shown
