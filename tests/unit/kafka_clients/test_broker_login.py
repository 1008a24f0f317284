"""When a connection reauthenticates (KIP-368)."""

from __future__ import annotations

import math

import pytest

from sharegroup.kafka_clients.connections.broker_login import reauthentication_delay_s


@pytest.mark.parametrize(("lifetime_ms", "delay_s"), [(0, math.inf), (1, 0.00085), (2_000, 1.7), (3_600_000, 3_060)])
def test_reauthentication_is_due_before_the_session_ends(lifetime_ms: int, delay_s: float) -> None:
    assert reauthentication_delay_s(lifetime_ms) == pytest.approx(delay_s)
