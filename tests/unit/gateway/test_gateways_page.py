"""docs/gateways.md agrees with the gateway: config keys, addresses and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from sharegroup.cli.servers.gateway_workers import PORTS_EACH
from sharegroup.config import GatewayConfig, parse_config
from sharegroup.config.keys.advertised_listeners import AdvertisedListeners
from sharegroup.gateway.fleet.fleet import ANNOUNCE_S, LIVES_MS

PAGE = (Path(__file__).parents[3] / "docs" / "gateways.md").read_text(encoding="utf-8")


def test_the_keys_are_those_of_the_configuration() -> None:
    named = set(re.findall(r"`(gateway\.[a-z.]+)", PAGE))
    assert len(named) >= 4
    assert named <= GatewayConfig.config_keys().keys()
    shown = re.search(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert parse_config(yaml.safe_load(shown[1]), "docs/gateways.md").gateway.advertised_listeners


def test_the_addresses_can_be_told() -> None:
    table = re.search(r"^\| behind \| example \|\n\| --- \| --- \|\n(.*?)^$", PAGE, re.DOTALL | re.MULTILINE)
    assert table is not None
    texts = [re.findall("`([^`]+)`", row)[-1] for row in table[1].splitlines()]
    texts = [text for text in texts if not text.startswith("gateway.advertised.host")]
    assert len(texts) == 3
    for text in texts:
        advertised = AdvertisedListeners.parse(text)
        told = [advertised.address(listener, 9193, "gateway-0") for listener in (1, 2, "standby")]
        assert None not in told
        assert len(set(told)) == 3 or "{port}" in text


def test_the_numbers_are_the_gateways() -> None:
    config = GatewayConfig()
    assert config.listener_port == 9192
    assert (ANNOUNCE_S, LIVES_MS) == (5, 20_000)
    assert "every five seconds" in PAGE
    assert "twenty seconds" in PAGE
    assert f"`gateway.drain.timeout.ms` ({config.drain_timeout_ms // 1000} s)" in PAGE
    assert f"(9192, {9192 + PORTS_EACH}, ...;" in PAGE
