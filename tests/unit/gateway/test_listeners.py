"""Which port stands for which broker."""

from __future__ import annotations

import pytest

from sharegroup.gateway.upstream.connection import UpstreamUnavailableError
from sharegroup.gateway.upstream.listeners import Listeners


def test_a_broker_keeps_its_port_and_a_new_one_is_missing() -> None:
    listeners = Listeners("gateway.example.org")
    assert listeners.missing([2, 1]) == [1, 2]
    listeners.add(1, 9192)
    listeners.add(2, 9193)
    assert listeners.missing([3, 2, 1]) == [3]
    assert listeners.missing([2]) == []  # broker 1 is away: its port stays
    assert listeners.port(1) == 9192
    assert listeners.node_ids == [1, 2]
    assert listeners.host == "gateway.example.org"
    assert listeners.has(2)
    assert not listeners.has(3)
    with pytest.raises(UpstreamUnavailableError, match="broker 3"):
        listeners.port(3)
