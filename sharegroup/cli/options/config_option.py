"""The option `--config`: loads the configuration file, and runs a function with its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sharegroup.cli.options.output import warn
from sharegroup.errors import InvalidConfigError, ShareGroupError

if TYPE_CHECKING:
    from sharegroup.config import Config

T = TypeVar("T")

JobConfig = Annotated[
    Path | None,
    typer.Option(help="Configuration file of the job, or of all cells, to send the request without a gateway."),
]
JobTimeout = Annotated[float, typer.Option(help="Maximum time to wait for the response of the job, in seconds.")]


def run_or_exit(config: Path, run: Callable[[Config], T]) -> T:
    """Load a configuration file, call `run` with its content, and return the result of `run`.

    If the file is invalid or `run` raises ShareGroupError, print the error and exit with code 1.
    """
    loaded = load_or_exit(config)
    try:
        return run(loaded)
    except ShareGroupError as error:
        warn(str(error))
        raise typer.Exit(1) from None


def load_or_exit(path: Path) -> Config:
    """Load a configuration file and return its content. If it is invalid, print the problems and exit with code 1."""
    from sharegroup.config import load_config

    try:
        return load_config(path)
    except InvalidConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
