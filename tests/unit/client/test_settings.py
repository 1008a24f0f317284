"""Settings of a share consumer."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.client.errors import InvalidSettingError
from sharegroup.client.settings import REFUSED, parse_settings

NEEDED = {"bootstrap_servers": "one:9092, two:9093", "group_id": "billing"}


def test_defaults_are_those_of_kafka() -> None:
    settings = parse_settings(NEEDED)
    assert settings.bootstrap_servers == ("one:9092", "two:9093")
    assert (settings.max_poll_records, settings.fetch_max_wait_ms) == (500, 500)
    assert not settings.is_explicit
    assert not settings.is_record_limit


def test_names_with_dots_are_accepted() -> None:
    assert parse_settings({**NEEDED, "max.poll.records": 7}).max_poll_records == 7


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_settings_of_other_groups_are_refused(name: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"{name} cannot be set when using a share group"):
        parse_settings({**NEEDED, name: "x"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_poll_record": 5}, "unknown setting max_poll_record; the nearest known name is max_poll_records"),
        ({"group_id": " "}, "group_id is not set"),
        ({"bootstrap_servers": ""}, "bootstrap_servers is not set"),
        ({"bootstrap_servers": "one"}, "must be host:port"),
        ({"share_acknowledgement_mode": "bogus"}, "it must be one of: implicit, explicit"),
        ({"share_acquire_mode": "bogus"}, "it must be one of: batch_optimized, record_limit"),
        ({"max_poll_records": 0}, "at least 1"),
        ({"fetch_min_bytes": "1"}, "a whole number"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        parse_settings({**NEEDED, **settings})


def test_connection_settings_are_kept_apart_and_out_of_sight() -> None:
    settings = parse_settings({**NEEDED, "security_protocol": "SASL_SSL", "sasl_plain_password": "secret"})
    assert settings.connection == {"security_protocol": "SASL_SSL", "sasl_plain_password": "secret"}
    assert "secret" not in repr(settings)
