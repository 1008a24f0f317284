"""How many connections there may be, of all clients and of one address (Kafka: ConnectionQuotas). PURE.

    key                                              Kafka's
    gateway.max.connections                          max.connections
    gateway.max.connections.per.ip                   max.connections.per.ip
    gateway.max.connections.per.ip.overrides         max.connections.per.ip.overrides
    gateway.max.connection.creation.rate.per.ip      connection_creation_rate, of the default ip entity

An address with an override of its own - another gateway, a balancer - is not limited by the two that are for any. And
the last places of all are for addresses that have few: a flood from some addresses leaves the door open for others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket

#: The last one of so many places is for addresses that have less than `FEW_CONNECTIONS`.
KEPT_PART, FEW_CONNECTIONS = 50, 4
#: Addresses whose rate is remembered, before those that have been quiet are forgotten.
MAX_REMEMBERED = 10_000


class AddressLimits:
    """`most` connections in all, `per_address` of each; `creation_rate`: new ones a second of each, 0: any number."""

    def __init__(self, most: int, per_address: int, overrides: Mapping[str, int], creation_rate: int) -> None:
        self._most, self._per_address, self._overrides = most, per_address, overrides
        self._kept = most // KEPT_PART
        self._creation_rate = creation_rate
        self._connections: Counter[str] = Counter()
        self._total = 0
        self._rates: dict[str, TokenBucket] = {}

    def refusal(self, address: str, now_ms: float) -> str | None:
        """Why a new connection of an address is refused; None: it has a place, and is one of the address's now."""
        problem = self._problem(address, now_ms)
        if problem is None:
            self._connections[address] += 1
            self._total += 1
        return problem

    def ended(self, address: str) -> None:
        """A connection that had a place is gone."""
        self._total -= 1
        self._connections[address] -= 1
        if not self._connections[address]:
            del self._connections[address]

    def _problem(self, address: str, now_ms: float) -> str | None:
        here, override = self._connections[address], self._overrides.get(address)
        if self._total >= self._most or (self._total >= self._most - self._kept and here >= FEW_CONNECTIONS):
            return f"there are {self._total} connections (gateway.max.connections)"
        if override is not None:
            return f"it has {here} connections (its override)" if here >= override else None
        if here >= self._per_address:
            return f"it has {here} connections (gateway.max.connections.per.ip)"
        if not self._is_slow_enough(address, now_ms):
            return "it connects too often (gateway.max.connection.creation.rate.per.ip)"
        return None

    def _is_slow_enough(self, address: str, now_ms: float) -> bool:
        if not self._creation_rate:
            return True
        bucket = self._rates.get(address)
        if bucket is None:
            if len(self._rates) >= MAX_REMEMBERED:
                self._rates = {known: rate for known, rate in self._rates.items() if not rate.is_full(now_ms)}
            bucket = self._rates[address] = TokenBucket(self._creation_rate, now_ms)
        return bucket.take(now_ms)
