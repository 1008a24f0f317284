"""The gateways in a ring, in the order of their standby addresses: all of them agree who comes after whom. PURE.

Each names the one behind it to its clients, and looks after the clients of the one before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from sharegroup.protocol.rows.gateway_rows import GatewayAddress


def after(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """The first of them behind a place, which may be one of them itself; None where there is no other."""
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_right(others, place) % len(others)] if others else None


def before(gateways: Iterable[GatewayAddress], place: GatewayAddress) -> GatewayAddress | None:
    """The last of them before a place; None where there is no other."""
    others = sorted(gateway for gateway in gateways if gateway != place)
    return others[bisect_left(others, place) - 1] if others else None
