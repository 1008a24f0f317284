"""One TLS context for all connections to the brokers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sharegroup.kafka_clients.connections.connection import tls_context


@pytest.fixture
def settings(pems: Path, tmp_path: Path) -> dict[str, object]:
    for name in ("cert.pem", "key.pem"):
        shutil.copy(pems / name, tmp_path)
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(tmp_path / "cert.pem"),
        "ssl_certfile": str(tmp_path / "cert.pem"),
        "ssl_keyfile": str(tmp_path / "key.pem"),
    }


def test_connections_share_a_context(settings: dict[str, object]) -> None:
    assert tls_context(settings) is tls_context(dict(settings))


def test_other_settings_have_another_context(settings: dict[str, object]) -> None:
    assert tls_context(settings) is not tls_context({**settings, "ssl_check_hostname": False})


@pytest.mark.parametrize("name", ["cert.pem", "key.pem"])
def test_changed_file_is_read_again(settings: dict[str, object], tmp_path: Path, name: str) -> None:
    before = tls_context(settings)
    os.utime(tmp_path / name, ns=(1, 1))
    assert tls_context(settings) is not before


def test_missing_file_is_an_error(settings: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tls_context({**settings, "ssl_cafile": str(tmp_path / "other.pem")})


def test_no_context_without_tls() -> None:
    assert tls_context({"security_protocol": "SASL_PLAINTEXT"}) is None
    assert tls_context({}) is None
