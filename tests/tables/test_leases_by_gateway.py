"""The leases of gateways at the source: when they end, and which operator keys that concerns."""

from __future__ import annotations

from sharegroup.job.clock.leases_by_gateway import LeasesByGateway
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS

_NOW_MS = 1_000_000
#: The end of a lease that is not known.
_LONGEST_MS = _NOW_MS + MAX_LEASE_MS


def _known(**ends_ms: int) -> LeasesByGateway:
    """Return the leases of gateways that have reserved nothing yet."""
    leases = LeasesByGateway()
    leases.apply({}, ends_ms, 0)
    return leases


def test_ended_lease_concerns_each_key_with_reservations_of_the_gateway() -> None:
    leases = _known(g1=100, g2=200, g3=50)
    leases.apply({"k": ["g1", "g2"], "l": ["g1"]}, {}, 0)
    assert (leases.first_ms, leases.over_at(100)) == (100, {})
    assert leases.over_at(101) == {"k": ["g1"], "l": ["g1"]}
    leases.apply({"k": ["g2"]}, {}, 0)
    assert leases.over_at(201) == {"k": ["g2"], "l": ["g1"]}
    leases.apply({"k": [], "l": []}, {}, 0)
    assert (leases.first_ms, leases.over_at(1_000)) == (None, {})


def test_lease_without_reservations_is_forgotten_when_it_is_over() -> None:
    leases = _known(g1=100, g2=200)
    leases.apply({}, {"g2": 100 + MAX_LEASE_MS}, 0)
    assert leases.ends_ms() == {"g1": 100, "g2": 100 + MAX_LEASE_MS}
    leases.apply({}, {"g2": 101 + MAX_LEASE_MS}, 0)
    assert leases.ends_ms() == {"g2": 101 + MAX_LEASE_MS}


def test_renewal_extends_the_own_lease_and_never_shortens_it() -> None:
    leases = _known(g1=100, g2=100)
    leases.apply({"k": ["g1", "g2"]}, {}, 0)
    leases.apply({}, {"g1": 150, "g2": 90}, 0)
    assert leases.ends_ms() == {"g1": 150, "g2": 100}


def test_unknown_lease_may_just_have_been_renewed() -> None:
    leases = LeasesByGateway()
    leases.apply({"k": ["g1"], "l": ["g2"]}, {"g2": _NOW_MS + 500}, _NOW_MS)
    assert leases.ends_ms() == {"g1": _LONGEST_MS, "g2": _LONGEST_MS}


def test_renewal_counts_for_a_reservation_that_is_read_after_it() -> None:
    """The reservation's row contains the previous lease, because it was sent before the renewal was confirmed."""
    leases = _known(g1=_NOW_MS + 100)
    leases.apply({"k": ["g1"]}, {}, _NOW_MS)
    leases.apply({"k": []}, {}, _NOW_MS)
    leases.apply({}, {"g1": _NOW_MS + 3_000}, _NOW_MS)
    leases.apply({"k": ["g1"]}, {"g1": _NOW_MS + 1_000}, _NOW_MS)
    assert leases.ends_ms() == {"g1": _NOW_MS + 3_000}
