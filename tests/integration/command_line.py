"""The command line in this process, whose standard output it takes: one command at a time."""

from __future__ import annotations

import logging
from typing import NamedTuple

from typer.testing import CliRunner

from sharegroup.cli.app import app


class Said(NamedTuple):
    """A command's exit code, and what it said."""

    code: int
    out: str
    err: str


def run(*arguments: str) -> Said:
    """Run `sharegroup` with some arguments. What it does to this process's logs is undone."""
    clients = logging.getLogger("kafka")
    level = clients.level
    try:
        done = CliRunner().invoke(app, arguments)
    finally:
        clients.setLevel(level)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Said(done.exit_code, done.stdout, done.stderr)
