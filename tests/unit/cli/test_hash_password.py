"""`sharegroup hash-password`: the line of a user, with the password from standard input."""

from __future__ import annotations

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from sharegroup.cli.app import app
from sharegroup.security.authentication.credentials import load_credentials


def run(*arguments: str, password: str = "secret") -> Result:
    return CliRunner().invoke(app, ["hash-password", *arguments], input=f"{password}\n")


@pytest.mark.parametrize("mechanisms", [[], ["SCRAM-SHA-256", "SCRAM-SHA-512"]])
def test_the_line_authenticates_with_the_password(
    tmp_path_factory: pytest.TempPathFactory, mechanisms: list[str]
) -> None:
    done = run("alice", *mechanisms)
    assert (done.exit_code, done.stderr) == (0, "")
    assert list(yaml.safe_load(done.stdout)) == ["alice"]
    path = tmp_path_factory.mktemp("users") / "users.yaml"
    path.write_text(done.stdout, encoding="utf-8")
    for mechanism in mechanisms or ["SCRAM-SHA-512"]:
        assert load_credentials(str(path), b"decoy").get_credential("alice", mechanism).matches("secret")


@pytest.mark.parametrize("arguments", [[], ["alice", "secret"], ["alice", "SCRAM-SHA-256", "SCRAM-SHA-256"]])
def test_a_password_as_an_argument_is_rejected(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")


def test_an_empty_password_is_rejected() -> None:
    done = run("alice", password="")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "empty" in done.stderr
