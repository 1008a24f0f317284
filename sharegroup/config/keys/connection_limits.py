"""`gateway.max.connections.per.ip.overrides`: connection limits of individual IP addresses, as in Kafka."""

import ipaddress

ALLOWED = "address:number, ..."


def connection_overrides(text: str) -> dict[str, int]:
    """Parse `address:number, ...` to {IP address: maximum connections}.

    Raise ValueError if the text has another format, or a host name instead of an IP address.
    """
    return dict(_entry(entry.strip()) for entry in text.split(",") if entry.strip())


def check_overrides(text: str) -> str:
    """Return the text if `connection_overrides` can read it. Raise ValueError otherwise."""
    connection_overrides(text)
    return text


def _entry(entry: str) -> tuple[str, int]:
    address, _, limit = entry.rpartition(":")
    try:
        host = str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        raise ValueError(f"{entry} does not begin with an IP address") from None
    if not (limit.isascii() and limit.isdigit()):
        raise ValueError(f"{entry} does not end with a number")
    return host, int(limit)
