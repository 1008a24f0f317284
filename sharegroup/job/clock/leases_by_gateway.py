"""Stores when the lease of each gateway ends, and at which operator keys the gateway has reserved offsets."""

from collections.abc import Mapping, Sequence

from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS


class LeasesByGateway:
    """The leases of gateways. Offsets that a gateway has reserved are kept for it until its lease ends.

    After a restart of the job, the lease of a gateway with reservations may be unknown. The gateway may just have
    renewed it, so the lease is assumed to last for the maximum time.

    The lease of a gateway without reservations is kept too, because the gateway may already have requested another
    reservation within this lease. Such a lease is removed after its end, when the lease of another gateway begins.
    """

    def __init__(self) -> None:
        self._gateways: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, set[str]] = {}
        self._ends_ms: dict[str, int] = {}

    def apply(self, gateways: Mapping[str, Sequence[str]], ends_ms: Mapping[str, int], now_ms: int) -> None:
        """Apply the changes of a batch whose time is `now_ms`.

        `gateways` has the gateways that hold reservations, by operator key. `ends_ms` has the ends of leases, by
        gateway. An end that is earlier than the known end of the lease is ignored.
        """
        for key, found in gateways.items():
            self._set(key, tuple(found))
        for gateway in self._keys.keys() - self._ends_ms.keys():
            self._ends_ms[gateway] = now_ms + MAX_LEASE_MS
        for gateway, end_ms in ends_ms.items():
            self._ends_ms[gateway] = max(end_ms, self._ends_ms.get(gateway, 0))
        begun_ms = max(self._ends_ms.values(), default=0) - MAX_LEASE_MS  # the latest lease began at or after this time
        for gateway in self._ends_ms.keys() - self._keys.keys():
            if self._ends_ms[gateway] < begun_ms:
                del self._ends_ms[gateway]

    def gateways_at(self, key: str) -> tuple[str, ...]:
        """Return the gateways that hold reservations at a key, sorted."""
        return self._gateways.get(key, ())

    def end_ms(self, gateway: str) -> int:
        """Return when the lease of a gateway ends; -1 if no lease is known."""
        return self._ends_ms.get(gateway, -1)

    def gateways(self) -> dict[str, list[str]]:
        """Return the gateways that hold reservations, by operator key."""
        return {key: list(found) for key, found in sorted(self._gateways.items())}

    def ends_ms(self) -> dict[str, int]:
        """Return the time at which each lease ends, by gateway."""
        return dict(sorted(self._ends_ms.items()))

    @property
    def first_ms(self) -> int | None:
        """The earliest end of a lease, among the gateways that hold reservations; None if no gateway holds any."""
        return min((self._ends_ms[gateway] for gateway in self._keys), default=None)

    def over_at(self, time_ms: int) -> dict[str, list[str]]:
        """Return {operator key: gateways}, for the gateways whose lease ended before `time_ms`.

        A gateway is listed at each key where it holds reservations.
        """
        over: dict[str, list[str]] = {}
        for gateway, keys in sorted(self._keys.items()):
            if self._ends_ms[gateway] < time_ms:
                for key in keys:
                    over.setdefault(key, []).append(gateway)
        return dict(sorted(over.items()))

    def _set(self, key: str, gateways: tuple[str, ...]) -> None:
        before = self._gateways.pop(key, ())
        if gateways:
            self._gateways[key] = gateways
        for gateway in gateways:
            self._keys.setdefault(gateway, set()).add(key)
        for gateway in set(before).difference(gateways):
            self._keys[gateway].discard(key)
            if not self._keys[gateway]:
                del self._keys[gateway]
