"""Kafka's `max.connections.per.ip.overrides`: how many connections single addresses may have."""

from __future__ import annotations

import ipaddress

ALLOWED = "address:number, several with commas between them"


def connection_overrides(text: str) -> dict[str, int]:
    """{address: most connections}. An address is one in digits: names are not looked up. Raises ValueError."""
    return dict(_entry(entry.strip()) for entry in text.split(",") if entry.strip())


def check_overrides(text: str) -> str:
    """The text, which `connection_overrides` reads. Raises ValueError."""
    connection_overrides(text)
    return text


def _entry(entry: str) -> tuple[str, int]:
    address, _, most = entry.rpartition(":")
    try:
        host = str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        raise ValueError(f"{entry} does not begin with an address") from None
    if not (most.isascii() and most.isdigit()):
        raise ValueError(f"{entry} does not end with a number")
    return host, int(most)
