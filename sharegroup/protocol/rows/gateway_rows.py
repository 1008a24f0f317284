"""Rows of the response topic with which gateways announce their addresses to each other.

The rows are JSON objects with the key `GATEWAY_KEY`. Each row is written to every partition. Other readers of the topic
skip these rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.protocol.json_text import from_json, to_json

#: The key of a gateway row.
GATEWAY_KEY = "gateways"
_MAX_PORT = 65_535


class GatewayAddress(NamedTuple):
    """A host and port that clients use to connect to a gateway."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """Announcement of a running gateway and its addresses.

    Attributes:
        standby: The address of this gateway for clients whose own gateway has failed.
        brokers: {broker id: address of the gateway's port for this broker}.
        lives_ms: The time in ms for which the row is valid after its append. 0 means that the gateway is stopping.
        listener: The name of the gateway's listener. Gateways with another listener name ignore the row.
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
    """Decode a record value. Raises ValueError if it is not a gateway row."""
    try:
        row = from_json(value)
        brokers = {int(node_id): _address(address) for node_id, address in row["brokers"].items()}
        lives_ms = row["lives_ms"]
        if type(lives_ms) is not int or lives_ms < 0:
            raise ValueError(f"lives_ms is not an integer of at least 0: {lives_ms!r}")
        listener = row["listener"]
        if type(listener) is not str:
            raise ValueError(f"listener is not a string: {listener!r}")
        return GatewayRow(_address(row["standby"]), brokers, lives_ms, listener)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"the record is not a gateway row: {error!r}") from error


def _address(value: object) -> GatewayAddress:
    match value:
        case [str(host), int(port)] if host and 0 < port <= _MAX_PORT:
            return GatewayAddress(host, port)
    raise ValueError(f"the address is not [host, port]: {value!r}")
