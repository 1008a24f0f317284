"""The broker addresses that a client is sent. No I/O."""

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.gateway_rows import GatewayAddress

#: Ids of standby nodes: above broker ids, and below those that Java clients use for coordinators, which are
#: 2^31 - 1 minus the broker's.
_FIRST_ID, _IDS = 2**30, 2**28


class Standby(NamedTuple):
    """The standby port of another gateway, sent to clients as one more broker."""

    node_id: int
    address: GatewayAddress


class ClientView(NamedTuple):
    """The brokers that one client is sent.

    `brokers` are the addresses of one gateway, by the id of the upstream broker. `standby` is a port of another
    gateway, or None if there is no other gateway. `may_have_moved` is True if the client may have used another gateway
    before, which sent other addresses for the same broker ids.
    """

    brokers: Mapping[int, tuple[str, int]]
    standby: Standby | None = None
    may_have_moved: bool = False


def standby_for(address: GatewayAddress) -> Standby:
    """Return the standby at an address. Its node id depends only on the address, so all gateways send the same one."""
    return Standby(_FIRST_ID + zlib.crc32(f"{address.host}:{address.port}".encode()) % _IDS, address)
