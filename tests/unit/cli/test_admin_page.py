"""The commands and methods in docs/admin.md exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from sharegroup.cli.app import app
from sharegroup.kafka_clients.admin import ShareGroupAdmin

PAGE = (Path(__file__).parents[3] / "docs" / "admin.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    sharegroup (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_is_parsed(line: str) -> None:
    name, *arguments = shlex.split(line.split(" > ")[0], comments=True)
    command = get_command(app).commands[name]  # type: ignore[attr-defined]  # a group of commands has them
    with command.make_context(name, arguments) as context:
        assert any(context.params.values())


def test_each_method_exists() -> None:
    shown = set(re.findall(r"\badmin\.([a-z_]+)\(", PAGE))
    assert len(shown) >= 9
    assert shown <= set(dir(ShareGroupAdmin))
