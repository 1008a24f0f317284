"""The leases of gateways at the source: when they end, and which operator keys that concerns."""

from __future__ import annotations

from sharegroup.job.clock.leases_by_gateway import LeasesByGateway
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS


def test_ended_lease_concerns_each_key_with_reservations_of_the_gateway() -> None:
    leases = LeasesByGateway()
    leases.apply({"k": ["g1", "g2"], "l": ["g1"]}, {"g1": 100, "g2": 200, "g3": 50}, 0)
    assert (leases.first_ms, leases.over_at(100)) == (100, {})
    assert leases.over_at(101) == {"k": ["g1"], "l": ["g1"]}
    leases.apply({"k": ["g2"]}, {}, 0)
    assert leases.over_at(201) == {"k": ["g2"], "l": ["g1"]}
    leases.apply({"k": [], "l": []}, {}, 0)
    assert (leases.first_ms, leases.over_at(1_000), leases.ends_ms()) == (None, {}, {})


def test_renewal_extends_the_own_lease_and_never_shortens_it() -> None:
    leases = LeasesByGateway()
    leases.apply({"k": ["g1", "g2"]}, {"g1": 100, "g2": 100}, 0)
    leases.apply({}, {"g1": 150, "g2": 90}, 0)
    assert leases.ends_ms() == {"g1": 150, "g2": 100}


def test_unknown_lease_may_just_have_been_renewed() -> None:
    leases = LeasesByGateway()
    leases.apply({"k": ["g1"]}, {}, 70)
    assert leases.ends_ms() == {"g1": 70 + MAX_LEASE_MS}
