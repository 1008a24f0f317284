"""The configuration file that a command names by `--config`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sharegroup.errors import InvalidConfigError

if TYPE_CHECKING:
    from sharegroup.config import Config


def config_of(path: Path) -> Config:
    """The configuration; what is wrong with it ends the command with exit code 1."""
    from sharegroup.config import load_config

    try:
        return load_config(path)
    except InvalidConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
