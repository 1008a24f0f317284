"""docs/reference/cli.md: the arguments and options of each command."""

from __future__ import annotations

from typing import Any

from typer.cli import get_docs_for_click
from typer.main import get_command

from sharegroup.cli.app import app
from tests.reference.markdown import GENERATED

_INTRODUCTION = f"""# Command line

{GENERATED} `sharegroup COMMAND --help` prints the same options.

[Administering share groups](../admin.md) shows how to use the commands, and lists their exit codes.
[A day of operating](../operating.md) uses them in practice.
"""


def page() -> str:
    """Return the page."""
    group: Any = get_command(app)
    with group.make_context("sharegroup", [], resilient_parsing=True) as context:
        # The list of commands repeats their first sentences, cut off.
        own, _, _ = get_docs_for_click(obj=group, ctx=context, name="sharegroup", indent=1).partition("**Commands**")
        commands = [
            get_docs_for_click(obj=command, ctx=context, call_prefix="sharegroup", indent=1)
            for command in group.commands.values()
        ]
    return f"{_INTRODUCTION}\n{own}{''.join(commands)}".rstrip() + "\n"
