"""A ring of gateways in the order of their standby addresses, so that all of them agree on the order. PURE.

Each gateway names its successor to its clients, and takes over the clients of its predecessor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from sharegroup.protocol.rows.gateway_rows import GatewayAddress


def after(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """Return the next other gateway after `place`, which need not be a gateway; None if there is no other."""
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_right(others, place) % len(others)] if others else None


def before(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """Return the previous other gateway before `place`; None if there is no other."""
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_left(others, place) - 1] if others else None
