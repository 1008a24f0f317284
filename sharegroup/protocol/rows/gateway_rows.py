"""Rows of the response topic with which gateways announce themselves to each other.

They are JSON objects with the key `GATEWAY_KEY`, and each is written to every partition. Readers of responses skip them
because of their key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.protocol.json_text import from_json, to_json

#: The key of a gateway row.
GATEWAY_KEY = "gateways"
_MAX_PORT = 65_535


class GatewayAddress(NamedTuple):
    """The address of a port of a gateway, as clients reach it."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """Announcement of a running gateway and its addresses.

    brokers   {id of a broker: address of the gateway's port for this broker}
    standby   address for clients of a failed gateway; unique to each gateway
    lives_ms  time from its append until the row expires; 0: the gateway stops
    listener  name of the listener; clients only use addresses of their own listener
    """

    standby: GatewayAddress
    brokers: Mapping[int, GatewayAddress] = field(default_factory=dict)
    lives_ms: int = 0
    listener: str = ""


def encode_gateway(row: GatewayRow) -> bytes:
    brokers = {str(node_id): list(address) for node_id, address in row.brokers.items()}
    content = {"standby": list(row.standby), "brokers": brokers, "lives_ms": row.lives_ms, "listener": row.listener}
    return to_json(content).encode()


def decode_gateway(value: bytes) -> GatewayRow:
    """Decode a record value. Raise ValueError if it is not a gateway row."""
    try:
        row = from_json(value)
        brokers = {int(node_id): _address(address) for node_id, address in row["brokers"].items()}
        lives_ms = row["lives_ms"]
        if type(lives_ms) is not int or lives_ms < 0:
            raise ValueError(f"lives_ms is {lives_ms}")
        listener = row["listener"]
        if type(listener) is not str:
            raise ValueError(f"listener is {listener!r}")
        return GatewayRow(_address(row["standby"]), brokers, lives_ms, listener)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not a gateway row: {error!r}") from error


def _address(value: object) -> GatewayAddress:
    match value:
        case [str(host), int(port)] if host and 0 < port <= _MAX_PORT:
            return GatewayAddress(host, port)
    raise ValueError(f"not an address: {value!r}")
