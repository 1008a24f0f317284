"""Rows with which gateways announce themselves."""

from __future__ import annotations

import pytest

from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow, decode_gateway, encode_gateway

STANDBY = GatewayAddress("a.example.com", 9191)


def test_an_encoded_row_is_decoded() -> None:
    row = GatewayRow(
        STANDBY, {1: GatewayAddress("a.example.com", 9193), 1001: GatewayAddress("::1", 10_193)}, 10_000, "SASL_SSL"
    )
    assert decode_gateway(encode_gateway(row)) == row


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"standby": ["a", 1], "brokers": {}}',
        b'{"standby": ["a", 1], "brokers": {}, "lives_ms": -1, "listener": ""}',
        b'{"standby": ["a", 1], "brokers": {}, "lives_ms": true, "listener": ""}',
        b'{"standby": ["a", 0], "brokers": {}, "lives_ms": 1, "listener": ""}',
        b'{"standby": ["", 1], "brokers": {}, "lives_ms": 1, "listener": ""}',
        b'{"standby": ["a", 1, 2], "brokers": {}, "lives_ms": 1, "listener": ""}',
        b'{"standby": ["a", 1], "brokers": [], "lives_ms": 1, "listener": ""}',
        b'{"standby": ["a", 1], "brokers": {"b": ["a", 1]}, "lives_ms": 1, "listener": ""}',
        b'{"standby": ["a", 1], "brokers": {}, "lives_ms": 1}',
        b'{"standby": ["a", 1], "brokers": {}, "lives_ms": 1, "listener": 1}',
        b'{"standby": ["a", 1], "brokers": {"1": "a:1"}, "lives_ms": 1, "listener": ""}',
    ],
)
def test_an_invalid_row_is_rejected(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a gateway row"):
        decode_gateway(value)
