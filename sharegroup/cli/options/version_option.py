"""The option --version of each command, as Kafka's tools have it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from sharegroup import __version__


def _show(is_asked_for: bool) -> None:
    if is_asked_for:
        typer.echo(f"sharegroup {__version__}")
        raise typer.Exit


#: A parameter of a command.
Version = Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show)]


def with_version(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with one parameter more, which it is not given: Typer reads options from the signature."""

    def run(**given: Any) -> None:
        given.pop("version", None)
        command(**given)

    hints = get_type_hints(command, include_extras=True)
    own = [each.replace(annotation=hints[name]) for name, each in inspect.signature(command).parameters.items()]
    version = inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Version)
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {**hints, "version": Version}
    run.__signature__ = inspect.Signature([*own, version])  # type: ignore[attr-defined]  # what inspect looks for
    return run
