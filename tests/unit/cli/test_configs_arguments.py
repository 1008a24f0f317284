"""Values of `configs --add-config` and `--delete-config`."""

from __future__ import annotations

import pytest

from sharegroup.cli.configs import parse_added_configs, parse_removed_configs
from sharegroup.cli.options.connection import CommandError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1,b=[2,3], c = x=y ,", {"a": "1", "b": "2,3", "c": "x=y"}),
        ("a=", {"a": ""}),
    ],
)
def test_configs_to_set_are_parsed(text: str, values: dict[str, str]) -> None:
    assert parse_added_configs(text) == values


@pytest.mark.parametrize("text", ["a", "a=1,b", "=1"])
def test_invalid_configs_to_set_are_rejected(text: str) -> None:
    with pytest.raises(CommandError, match="Invalid entity config"):
        parse_added_configs(text)


def test_configs_to_remove_are_parsed() -> None:
    assert parse_removed_configs("a, b,") == ["a", "b"]
