"""The number of connections by the limit of open files."""

from __future__ import annotations

import logging
import resource

import pytest

from sharegroup.gateway.clients.accepting import descriptors
from sharegroup.gateway.clients.accepting.descriptors import limit_connections, raise_limit

INFINITY = resource.RLIM_INFINITY


class Limits:
    """Replaces the limits of the process."""

    def __init__(self, soft: int, hard: int, refused: bool = False) -> None:
        self.limits, self._refused = (soft, hard), refused

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.limits

    def setrlimit(self, kind: int, limits: tuple[int, int]) -> None:
        assert limits[1] == self.limits[1]
        if self._refused:
            raise ValueError("not allowed to raise maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("limits", "found", "soft"),
    [
        (Limits(1_024, 4_096), 4_096, 4_096),
        (Limits(4_096, 4_096), 4_096, 4_096),
        (Limits(256, INFINITY), 65_536, 65_536),
        (Limits(100_000, INFINITY), 100_000, 100_000),
        (Limits(INFINITY, INFINITY), None, INFINITY),
        (Limits(256, INFINITY, refused=True), 256, 256),
    ],
)
def test_limit_is_raised_to_the_hard_limit(
    monkeypatch: pytest.MonkeyPatch, limits: Limits, found: int | None, soft: int
) -> None:
    monkeypatch.setattr(descriptors.resource, "getrlimit", limits.getrlimit)
    monkeypatch.setattr(descriptors.resource, "setrlimit", limits.setrlimit)
    assert raise_limit() == found
    assert limits.limits[0] == soft


@pytest.mark.parametrize(
    ("limit", "possible"), [(None, 5_000), (20_000, 5_000), (10_128, 5_000), (1_024, 448), (64, 1)]
)
def test_connections_are_limited_by_descriptors(
    limit: int | None, possible: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert limit_connections(limit, 5_000) == possible
    assert len(caplog.records) == (possible < 5_000)


def test_warning_names_the_limit_to_change(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        limit_connections(1_024, 5_000)
    (record,) = caplog.records
    assert record.getMessage() == (
        "gateway.max.connections is 5000 and needs 10128 open files, but the limit is 1024 (ulimit -Hn):"
        " serving up to 448 connections"
    )
