"""Makes a line of the gateway's file of users: `python -m sharegroup.gateway.security.hash_password USER`.

The password is asked for, or read from standard input where that is no terminal; it is never an argument, since those
are seen by everybody on the machine.
"""

from __future__ import annotations

import getpass
import sys

from sharegroup.gateway.security.credentials import hash_password


def main(arguments: list[str]) -> int:
    """Print the line; 0, or 2 when the user or the password is none."""
    if len(arguments) != 1:
        print("usage: python -m sharegroup.gateway.security.hash_password USER", file=sys.stderr)
        return 2
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    try:
        print(hash_password(arguments[0], password))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
