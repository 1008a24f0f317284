"""`gateway.advertised.listeners`: what clients are told to connect to, where it is not the gateway's own host and port.

    {hostname}.gateways.default.svc:{port}                              one template for all ports
    1=kafka-1.example.com:9092, 2=kafka-2.example.com:9092              each broker's port by its id
    standby=10.0.0.7:9191, broker-{broker}.example.com:{port}           some named, a template for the others

PURE: the host's name comes in as an argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

#: What the port for clients of other gateways is called, in the place of a broker's id.
STANDBY = "standby"
_ENTRY = re.compile(r"(?:(\d+|standby)=)?([^\s,=]+)")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]{}]+):(\d+)")
_MOST_PORTS = 65_535


class AdvertisedListeners:
    """The addresses by port: the `named` ones, {broker id or STANDBY: template}, and a template for the `others`."""

    def __init__(self, named: Mapping[str, str], others: str) -> None:
        self._named, self._others = named, others

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError with a sentence for what is wrong. An empty text names no address."""
        named: dict[str, str] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            found = _ENTRY.fullmatch(entry)
            if found is None:
                raise ValueError(f"Not [BROKER=]HOST:PORT: {entry}")
            name, template = found[1] or "", found[2]
            if name in named:
                raise ValueError(f"Named twice: {name or 'the address of the other ports'}")
            _address(template, name or "1", 1, "host")
            named[name] = template
        others = named.pop("", "")
        return cls(named, others)

    def address(self, listener: int | str, port: int, hostname: str) -> tuple[str, int] | None:
        """(host, port) that clients are told for a broker's port, or STANDBY, which listens on `port`.

        None where the text says nothing of it.
        """
        template = self._named.get(str(listener), self._others)
        return _address(template, str(listener), port, hostname) if template else None


def _address(template: str, listener: str, port: int, hostname: str) -> tuple[str, int]:
    text = template
    for name, value in {"broker": listener, "port": str(port), "hostname": hostname}.items():
        text = text.replace(f"{{{name}}}", value)
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= _MOST_PORTS:
        raise ValueError(f"Not HOST:PORT, with {{broker}}, {{port}} and {{hostname}} at the most: {template}")
    return found[1].strip("[]"), int(found[2])
