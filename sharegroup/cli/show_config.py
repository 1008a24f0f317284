"""The command `sharegroup config`."""

from __future__ import annotations

import typer


def config() -> None:
    """Print all configuration keys with defaults, allowed values and descriptions."""
    from sharegroup.config import reference

    typer.echo(reference())
