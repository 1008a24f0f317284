"""The command `sharegroup config`."""

import typer


def config() -> None:
    """Print all configuration keys with defaults, allowed values and descriptions."""
    from sharegroup.config import reference

    typer.echo(reference())
