"""The command `sharegroup hash-password`."""

import getpass
import sys
from typing import Annotated

import typer

from sharegroup.cli.options.output import warn


def hash_password(
    user: Annotated[str, typer.Argument(help="Name of the user.")],
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MECHANISM]...", help="SCRAM-SHA-512 (default), SCRAM-SHA-256, or both."),
    ] = None,
) -> None:
    """Print the line of a user for the gateway's file of users.

    The command prompts for the password, or reads it from standard input if that is not a terminal. The password is
    never an argument, because all users of the machine can see the arguments of a process.
    """
    from sharegroup.security.authentication.credentials import SCRAM_MECHANISMS, SCRAM_SHA_512
    from sharegroup.security.authentication.credentials import hash_password as line_of

    chosen = mechanisms or [SCRAM_SHA_512]
    if not user or not SCRAM_MECHANISMS.keys() >= set(chosen) or len(set(chosen)) < len(chosen):
        raise typer.BadParameter(
            "the user name must not be empty, and no mechanism may be specified twice; "
            f"the mechanisms are {', '.join(SCRAM_MECHANISMS)}"
        )
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    try:
        typer.echo(line_of(user, password, tuple(chosen)))
    except ValueError as error:
        warn(str(error))
        raise typer.Exit(2) from None
