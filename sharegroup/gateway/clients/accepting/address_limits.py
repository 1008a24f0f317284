"""Limits on the number of connections, in total and per address (Kafka: ConnectionQuotas). No I/O.

    config of the gateway                            config of Kafka
    gateway.max.connections                          max.connections
    gateway.max.connections.per.ip                   max.connections.per.ip
    gateway.max.connections.per.ip.overrides         max.connections.per.ip.overrides
    gateway.max.connection.creation.rate.per.ip      connection_creation_rate, of the default ip entity

An address with an override, such as a load balancer, has its own maximum of connections and no limit on its creation
rate. A part of the total limit is reserved for addresses with few connections, so that an address with many connections
cannot block all others.
"""

from collections import Counter
from collections.abc import Mapping

from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket

#: 1/`KEPT_PART` of the total limit is reserved for addresses with fewer than `FEW_CONNECTIONS` connections.
KEPT_PART, FEW_CONNECTIONS = 50, 4
#: Maximum number of addresses whose connection rate is stored. At the maximum, rates of inactive addresses are deleted.
MAX_REMEMBERED = 10_000


class AddressLimits:
    """The limits on client connections, and the numbers of connections that count against them.

    Args:
        most: the maximum number of connections of all addresses together.
        per_address: the maximum number of connections of each address without an entry in `overrides`.
        overrides: {address: its maximum of connections}. `creation_rate` does not apply to these addresses.
        creation_rate: the maximum number of new connections per second and address; 0 means no limit.
    """

    def __init__(self, most: int, per_address: int, overrides: Mapping[str, int], creation_rate: int) -> None:
        self._most, self._per_address, self._overrides = most, per_address, overrides
        self._kept = most // KEPT_PART
        self._creation_rate = creation_rate
        self._connections: Counter[str] = Counter()
        self._total = 0
        self._rates: dict[str, TokenBucket] = {}

    def add_or_reject(self, address: str, now_ms: float) -> str | None:
        """Count a new connection and return None. If a limit rejects the connection, return the reason instead."""
        problem = self._problem(address, now_ms)
        if problem is None:
            self._connections[address] += 1
            self._total += 1
        return problem

    def remove(self, address: str) -> None:
        """Subtract a connection of this address, because it has ended."""
        self._total -= 1
        self._connections[address] -= 1
        if not self._connections[address]:
            del self._connections[address]

    def _problem(self, address: str, now_ms: float) -> str | None:
        count, override = self._connections[address], self._overrides.get(address)
        if self._total >= self._most or (self._total >= self._most - self._kept and count >= FEW_CONNECTIONS):
            return f"the gateway has {self._total} connections (gateway.max.connections)"
        if override is not None:
            return (
                f"it has {count} connections (its gateway.max.connections.per.ip.overrides)"
                if count >= override
                else None
            )
        if count >= self._per_address:
            return f"it has {count} connections (gateway.max.connections.per.ip)"
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
        return bucket.try_spend(now_ms)
