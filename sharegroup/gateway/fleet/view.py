"""What a client is told of where the brokers are. PURE."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.gateway_rows import GatewayAddress

#: Ids of standby nodes: above what brokers have, and below those that Java's clients make for coordinators, which are
#: 2^31 - 1 minus the broker's.
_FIRST_ID, _IDS = 2**30, 2**28


class Standby(NamedTuple):
    """Another gateway's port for clients that have lost their own, told as one more broker."""

    node_id: int
    address: GatewayAddress


class View(NamedTuple):
    """One gateway's addresses by upstream broker, and the standby that it names; None without another gateway."""

    brokers: Mapping[int, tuple[str, int]]
    standby: Standby | None = None


def standby_at(address: GatewayAddress) -> Standby:
    """With a node id of the address's own, the same whoever names it, so that a client never takes two for one."""
    return Standby(_FIRST_ID + zlib.crc32(f"{address.host}:{address.port}".encode()) % _IDS, address)
