"""The command `sharegroup config`."""

from __future__ import annotations

import typer


def config() -> None:
    """Print every configuration key with its default, bounds and meaning."""
    from sharegroup.config import reference

    typer.echo(reference())
