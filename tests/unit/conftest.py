"""Certificates for the tests of TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.self_signed import make_pems


@pytest.fixture(scope="session")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that `make_pems` writes, the same for all tests."""
    return make_pems(tmp_path_factory.mktemp("pems"))
