"""The address that clients are sent for each broker."""

from __future__ import annotations

import pytest

from sharegroup.config.keys.advertised_listeners import STANDBY, AdvertisedListeners
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError


def test_a_broker_keeps_its_address_and_a_new_one_is_missing() -> None:
    listeners = Listeners("gateway.example.org")
    assert listeners.without_port([2, 1]) == [1, 2]
    listeners.add(1, 9192)
    listeners.add(2, 9193)
    assert listeners.without_port([3, 2, 1]) == [3]
    assert listeners.without_port([2]) == []  # broker 1 is away: its port stays
    assert listeners.addresses == {1: ("gateway.example.org", 9192), 2: ("gateway.example.org", 9193)}
    assert listeners.get_address(1) == ("gateway.example.org", 9192)
    assert listeners.has_port(2)
    assert not listeners.has_port(3)
    with pytest.raises(UpstreamUnavailableError, match="broker 3"):
        listeners.get_address(3)


def test_advertised_address_is_sent_or_else_the_host() -> None:
    listeners = Listeners("10.0.0.7", AdvertisedListeners.parse("2=kafka.example.com:443"))
    listeners.add(1, 9193)
    listeners.add(2, 9194)
    assert listeners.standby is None
    listeners.add_standby(9191)
    assert listeners.addresses == {1: ("10.0.0.7", 9193), 2: ("kafka.example.com", 443)}
    assert listeners.standby == ("10.0.0.7", 9191)


@pytest.mark.parametrize(
    ("text", "listener", "address"),
    [
        ("", 1, None),
        ("{hostname}.gateways.svc:{port}", 7, ("pod-0.gateways.svc", 9199)),
        ("broker-{broker}.example.com:{port}", 1001, ("broker-1001.example.com", 9199)),
        ("broker-{broker}.example.com:9092", STANDBY, ("broker-standby.example.com", 9092)),
        ("1=a:1, 2=b:2 ,standby=[::1]:3", 1, ("a", 1)),
        ("1=a:1,2=b:2,standby=[::1]:3", 2, ("b", 2)),
        ("1=a:1,2=b:2,standby=[::1]:3", STANDBY, ("::1", 3)),
        ("1=a:1,2=b:2,standby=[::1]:3", 3, None),
        ("1=a:1,rest:{port}", 3, ("rest", 9199)),
    ],
)
def test_addresses_by_broker(text: str, listener: int | str, address: tuple[str, int] | None) -> None:
    assert AdvertisedListeners.parse(text).address(listener, 9199, "pod-0") == address


@pytest.mark.parametrize(
    "text",
    [
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "host:port",
        "x=host:1",
        "1=",
        "{brokers}:1",
        "a:1,b:2",
        "1=a:1,1=b:2",
    ],
)
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|More than one entry"):
        AdvertisedListeners.parse(text)
