"""The option --version of each command, as in Kafka's tools."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from sharegroup import __version__


def _show(is_set: bool) -> None:
    if is_set:
        typer.echo(f"sharegroup {__version__}")
        raise typer.Exit


#: The parameter `version` that `with_version` adds to a command.
Version = Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show)]


def with_version(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function that runs `command` and has an additional option --version.

    The option is added to the function's signature, because Typer reads the options from there.
    """

    def run(**given: Any) -> None:
        given.pop("version", None)
        command(**given)

    hints = get_type_hints(command, include_extras=True)
    own = [each.replace(annotation=hints[name]) for name, each in inspect.signature(command).parameters.items()]
    version = inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Version)
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {**hints, "version": Version}
    run.__signature__ = inspect.Signature([*own, version])  # type: ignore[attr-defined]  # read by inspect
    return run
