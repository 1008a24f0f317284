"""Certificates for the tests of TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.self_signed import make_pems


@pytest.fixture(scope="session")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See `make_pems`."""
    return make_pems(tmp_path_factory.mktemp("pems"))
