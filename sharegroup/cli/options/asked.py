"""What a command asks the job for, or the end of the command with what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sharegroup.cli.options.config_option import config_of
from sharegroup.cli.options.output import warn
from sharegroup.errors import ShareGroupError

if TYPE_CHECKING:
    from sharegroup.config import Config

T = TypeVar("T")

JobConfig = Annotated[
    Path | None,
    typer.Option(help="The configuration file of the job, or of all cells, to ask the job without a gateway."),
]
JobTimeout = Annotated[float, typer.Option(help="How long to wait for the job's answer, in seconds.")]


def asked(config: Path, ask: Callable[[Config], T]) -> T:
    """What `ask` gives for the configuration file; an error is told, and the exit code is 1."""
    found = config_of(config)
    try:
        return ask(found)
    except ShareGroupError as error:
        warn(str(error))
        raise typer.Exit(1) from None
