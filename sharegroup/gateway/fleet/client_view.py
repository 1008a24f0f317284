"""The broker addresses that a client receives in Metadata responses. No I/O."""

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.gateway_rows import GatewayAddress

#: The first node id for standby ports, and the number of such ids. These ids are above broker ids. They are below the
#: ids that Java clients use for connections to coordinators, which are 2^31 - 1 minus the broker id.
_FIRST_ID, _IDS = 2**30, 2**28


class Standby(NamedTuple):
    """The standby port of a gateway. Clients of another gateway receive it as one more broker with the id `node_id`."""

    node_id: int
    address: GatewayAddress


class ClientView(NamedTuple):
    """The broker addresses that one client receives.

    Attributes:
        brokers: {id of the upstream broker: address at one of the gateways}.
        standby: the standby port that the client receives as one more broker; None if it receives no standby port.
        may_have_moved: whether the client may have used another gateway before, with other addresses for these broker
            ids.
    """

    brokers: Mapping[int, tuple[str, int]]
    standby: Standby | None = None
    may_have_moved: bool = False


def standby_for(address: GatewayAddress) -> Standby:
    """Return the standby port with this address. All gateways compute the same node id from the address."""
    return Standby(_FIRST_ID + zlib.crc32(f"{address.host}:{address.port}".encode()) % _IDS, address)
