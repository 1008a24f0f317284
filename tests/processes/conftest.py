"""Gateways that are served on real ports, their users, and certificates for the tests of TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.security.authentication.credentials import hash_password
from tests.harness.event_loop import EventLoop
from tests.processes.served_clients import Serve, serving
from tests.unit.conftest import pems

__all__ = ["pems"]


@pytest.fixture
def serve(loop: EventLoop) -> Iterator[Serve]:
    """Return a function that serves a gateway with these keys until the end of the test."""
    with loop.entering(serving) as serve:
        yield serve


@pytest.fixture
def users(tmp_path: Path) -> dict[str, object]:
    """The keys of a gateway with a user alice, whose password is `secret`."""
    path = tmp_path / "users.yaml"
    path.write_text(hash_password("alice", "secret"), encoding="utf-8")
    return {"gateway.sasl.users.location": str(path)}
