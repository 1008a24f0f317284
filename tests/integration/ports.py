"""Ports that a page names: anybody's."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharegroup.testing.ports import is_free

_LOCK = Path(tempfile.gettempdir()) / f"sharegroup-named-ports-{os.getuid()}.lock"


@contextmanager
def named_ports(*ports: int) -> Iterator[None]:
    """For one test of this machine at a time. Where somebody else has one of the ports, the page's lines cannot be run:
    the test is skipped."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for port in ports:
            if not is_free(port):
                pytest.skip(f"port {port} is taken")
        yield
