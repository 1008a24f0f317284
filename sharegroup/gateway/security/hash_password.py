"""Makes a line of the gateway's file of users.

    python -m sharegroup.gateway.security.hash_password USER [MECHANISM...]

A mechanism is SCRAM-SHA-512, as it is without any, or SCRAM-SHA-256. The password is asked for, or read from standard
input where that is no terminal; it is never an argument, since those are seen by everybody on the machine.
"""

from __future__ import annotations

import getpass
import sys

from sharegroup.gateway.security.credentials import SCRAM_MECHANISMS, SCRAM_SHA_512, hash_password


def main(arguments: list[str]) -> int:
    """Print the line; 0, or 2 when the user, a mechanism or the password is none."""
    user, *mechanisms = arguments or [""]
    if not user or not SCRAM_MECHANISMS.keys() >= set(mechanisms) or len(set(mechanisms)) < len(mechanisms):
        known = "|".join(SCRAM_MECHANISMS)
        print(f"usage: python -m sharegroup.gateway.security.hash_password USER [{known}]...", file=sys.stderr)
        return 2
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    try:
        print(hash_password(user, password, mechanisms or (SCRAM_SHA_512,)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
