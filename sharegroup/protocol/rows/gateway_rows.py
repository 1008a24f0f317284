"""Rows of the response topic by which gateways know each other: JSON objects, keyed `GATEWAYS`, in each partition.

Whoever waits for responses passes them over, since they have another key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.protocol.json_text import from_json, to_json

#: Key of such a row.
GATEWAYS = "gateways"
_MOST_PORT = 65_535


class GatewayAddress(NamedTuple):
    """Where clients reach a port of a gateway."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway says that it serves, and where.

    brokers   {id of an upstream broker: where the gateway stands in for it}
    standby   where clients of another gateway find it when theirs is lost; no two gateways have the same
    lives_ms  how long the row counts, from its append; 0: the gateway ends
    listener  the name of its listener: clients of one listener have no use for the addresses of another
    """

    standby: GatewayAddress
    brokers: Mapping[int, GatewayAddress] = field(default_factory=dict)
    lives_ms: int = 0
    listener: str = ""


def encode_gateway(row: GatewayRow) -> bytes:
    """The value of a row."""
    brokers = {str(node_id): list(address) for node_id, address in row.brokers.items()}
    said = {"standby": list(row.standby), "brokers": brokers, "lives_ms": row.lives_ms, "listener": row.listener}
    return to_json(said).encode()


def decode_gateway(value: bytes) -> GatewayRow:
    """Read a row; raises ValueError on what is none."""
    try:
        row = from_json(value)
        brokers = {int(node_id): _address(address) for node_id, address in row["brokers"].items()}
        lives_ms = row["lives_ms"]
        if type(lives_ms) is not int or lives_ms < 0:
            raise ValueError(f"it lives for {lives_ms} ms")
        listener = row["listener"]
        if type(listener) is not str:
            raise ValueError(f"its listener is {listener!r}")
        return GatewayRow(_address(row["standby"]), brokers, lives_ms, listener)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not a gateway's row: {error!r}") from error


def _address(said: object) -> GatewayAddress:
    match said:
        case [str(host), int(port)] if host and 0 < port <= _MOST_PORT:
            return GatewayAddress(host, port)
    raise ValueError(f"no address: {said!r}")
