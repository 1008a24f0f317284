"""`gateway.advertised.listeners`: the addresses that clients connect to, if they differ from the gateway's own.

{hostname}.gateways.default.svc:{port}                              one template for all ports
1=kafka-1.example.com:9092, 2=kafka-2.example.com:9092              an address for each broker id
standby=10.0.0.7:9191, broker-{broker}.example.com:{port}           one address by name, a template for all other ports
"""

import re
from collections.abc import Mapping
from typing import Self

#: The name of the standby port, which has no broker id. Clients of other gateways use this port.
STANDBY = "standby"
_ENTRY = re.compile(r"(?:(\d+|standby)=)?([^\s,=]+)")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]{}]+):(\d+)")
_MAX_PORT = 65_535


class AdvertisedListeners:
    """The addresses that the gateway advertises for its ports.

    `named` is {broker id or STANDBY: address template}. `others` is the template for all other ports, or empty.
    """

    def __init__(self, named: Mapping[str, str], others: str) -> None:
        self._named, self._others = named, others

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the value of the config key. Raise ValueError if it is invalid.

        An empty text results in no addresses.
        """
        named: dict[str, str] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            found = _ENTRY.fullmatch(entry)
            if found is None:
                raise ValueError(f"Not [BROKER=]HOST:PORT: {entry}")
            name, template = found[1] or "", found[2]
            if name in named:
                raise ValueError(f"More than one entry {f'for broker {name}' if name else 'without BROKER='}")
            _address(template, name or "1", 1, "host")
            named[name] = template
        others = named.pop("", "")
        return cls(named, others)

    def address(self, listener: int | str, port: int, hostname: str) -> tuple[str, int] | None:
        """Return the advertised (host, port) of a listener, None if none is configured for it.

        `listener` is a broker id or STANDBY, and `port` is the port that it listens on. `listener`, `port` and
        `hostname` replace the placeholders of the template. Raise ValueError if the result is not HOST:PORT.
        """
        template = self._named.get(str(listener), self._others)
        return _address(template, str(listener), port, hostname) if template else None


def _address(template: str, listener: str, port: int, hostname: str) -> tuple[str, int]:
    text = template
    for name, value in {"broker": listener, "port": str(port), "hostname": hostname}.items():
        text = text.replace(f"{{{name}}}", value)
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= _MAX_PORT:
        raise ValueError(f"Not HOST:PORT: {template}. The placeholders are {{broker}}, {{port}} and {{hostname}}")
    return found[1].strip("[]"), int(found[2])
