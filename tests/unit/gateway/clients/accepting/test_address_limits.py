"""Limits of connections, in total and per address."""

from __future__ import annotations

import pytest

from sharegroup.config import GatewayConfig
from sharegroup.config.keys.connection_limits import connection_overrides
from sharegroup.gateway.clients.accepting.address_limits import MAX_REMEMBERED, AddressLimits


def come(limits: AddressLimits, address: str, number: int, now_ms: float = 0) -> int:
    """Return how many of `number` connections are accepted."""
    return sum(limits.add_or_reject(address, now_ms) is None for _ in range(number))


def test_connections_of_an_address_are_limited() -> None:
    limits = AddressLimits(100, 10, {}, 0)
    assert come(limits, "rude", 50) == 10
    assert come(limits, "good", 5) == 5


def test_closed_connection_frees_its_place() -> None:
    limits = AddressLimits(2, 2, {}, 0)
    assert come(limits, "a", 3) == 2
    limits.remove("a")
    assert come(limits, "b", 3) == 1


def test_override_replaces_the_limits_per_address() -> None:
    limits = AddressLimits(100, 10, {"balancer": 30, "barred": 0}, 5)
    assert come(limits, "balancer", 50) == 30
    assert come(limits, "barred", 1) == 0
    assert come(limits, "other", 50) == 5


def test_last_places_are_reserved_for_addresses_with_few_connections() -> None:
    """For example another gateway that checks this one, or a new client."""
    limits = AddressLimits(100, 100, {"balancer": 100}, 0)
    assert come(limits, "rude", 200) + come(limits, "balancer", 200) == 100 - 100 // 50 + 2
    limits = AddressLimits(1_000, 1_000, {}, 0)
    assert come(limits, "rude", 2_000) == 980
    assert come(limits, "good", 10) == 4
    assert sum(come(limits, f"probe {number}", 1) for number in range(100)) == 16


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (AddressLimits(0, 10, {}, 0), "gateway.max.connections)"),
        (AddressLimits(10, 0, {}, 0), "gateway.max.connections.per.ip)"),
        (AddressLimits(10, 10, {"a": 0}, 0), "overrides"),
    ],
)
def test_rejection_names_the_limit(limits: AddressLimits, reason: str) -> None:
    assert reason in (limits.add_or_reject("a", 0) or "")


def test_creation_rate_rejects_until_time_has_passed() -> None:
    limits = AddressLimits(1_000, 1_000, {}, 5)
    assert come(limits, "a", 20) == 5
    assert "creation.rate" in (limits.add_or_reject("a", 0) or "")
    assert come(limits, "b", 20) == 5
    assert come(limits, "a", 20, now_ms=400) == 2


def test_inactive_addresses_are_discarded() -> None:
    limits = AddressLimits(10**9, 10, {}, 5)
    for number in range(MAX_REMEMBERED + 1):
        limits.add_or_reject(str(number), now_ms=float(number))
    assert len(limits._rates) <= 1_001


def test_the_overrides_text() -> None:
    assert connection_overrides("127.0.0.1:200, [::1]:7,2001:DB8::1:9") == {
        "127.0.0.1": 200,
        "::1": 7,
        "2001:db8::1": 9,
    }
    assert connection_overrides("") == {}


@pytest.mark.parametrize("text", ["localhost:5", "10.0.0.7", "10.0.0.7:", "10.0.0.7:-1", ":5", "10.0.0.7:٣"])
def test_malformed_override_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"begin with an IP address|end with a number"):
        GatewayConfig.model_validate({"gateway.max.connections.per.ip.overrides": text})
