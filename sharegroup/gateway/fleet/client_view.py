"""The broker addresses that a client receives in Metadata responses. No I/O."""

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.gateway_rows import GatewayAddress

#: First id and number of ids of standby nodes. They are above broker ids and below the ids that Java clients use for
#: connections to coordinators, which are 2^31 - 1 minus the broker id.
_FIRST_ID, _IDS = 2**30, 2**28


class Standby(NamedTuple):
    """The standby port of another gateway, which clients receive as one more broker."""

    node_id: int
    address: GatewayAddress


class ClientView(NamedTuple):
    """The brokers that one client receives.

    Attributes:
        brokers: {id of the upstream broker: address at one of the gateways}.
        standby: a port of another gateway; None if there is no other gateway.
        may_have_moved: whether the client may have used another gateway before, with other addresses for these broker
            ids.
    """

    brokers: Mapping[int, tuple[str, int]]
    standby: Standby | None = None
    may_have_moved: bool = False


def standby_for(address: GatewayAddress) -> Standby:
    """Return the standby at an address. The node id is derived from the address, so all gateways use the same id."""
    return Standby(_FIRST_ID + zlib.crc32(f"{address.host}:{address.port}".encode()) % _IDS, address)
