"""Who may log in: a YAML file of users and what proves their passwords. No password is in it.

    alice: SCRAM-SHA-512$8192:<salt>$<stored key>:<server key>

One entry serves both mechanisms: SCRAM proves the password without sending it, and for PLAIN the stored key is computed
from what was sent. `python -m sharegroup.gateway.security.hash_password alice` makes such a line.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from pathlib import Path
from typing import NamedTuple

import yaml
from scramp import ScramException, ScramMechanism

from sharegroup.errors import InvalidConfigError

SCRAM_SHA_512 = "SCRAM-SHA-512"
#: A stolen file is to be slow to search, and a login over PLAIN quick to check: some milliseconds.
ITERATIONS = 8_192
_ENTRY = re.compile(rf"{SCRAM_SHA_512}\$(\d{{4,8}}):([^$:]+)\$([^$:]+):([^$:]+)")
_MECHANISM = ScramMechanism(SCRAM_SHA_512)


class ScramCredential(NamedTuple):
    """The server's half of a password (RFC 5802), in the order that scramp wants."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def proves(self, password: str) -> bool:
        """Whether it is the password. Takes milliseconds, on purpose."""
        try:
            _, stored_key, _, _ = _MECHANISM.make_auth_info(password, self.iterations, self.salt)
        except ScramException:  # characters that no password may have (RFC 4013)
            return False
        return hmac.compare_digest(stored_key, self.stored_key)


class Credentials:
    """The users of the file. An unknown user's login goes the same way and takes the same time as a wrong password.

    `decoy_key` is a secret of this process, for the credentials that unknown users seem to have.
    """

    def __init__(self, users: dict[str, ScramCredential], decoy_key: bytes) -> None:
        self._users, self._decoy_key = users, decoy_key

    def credential(self, user: str) -> ScramCredential:
        """The user's credential; one that no password fits for a user who is not in the file."""
        known = self._users.get(user)
        if known is not None:
            return known
        digest = hmac.digest(self._decoy_key, user.encode(errors="replace"), "sha512")
        return ScramCredential(digest[:32], digest, digest, ITERATIONS)


def hash_password(user: str, password: str) -> str:
    """The line of the file for a user with this password, with a new random salt.

    Raises ValueError for a user or password that SASL does not allow (empty, or control characters: RFC 4013).
    """
    if not user or not password:
        raise ValueError("neither user nor password may be empty")
    try:
        salt, stored_key, server_key, iterations = _MECHANISM.make_auth_info(password, ITERATIONS)
    except ScramException as error:
        raise ValueError(f"not allowed in a password: {error}") from error
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    entry = f"{SCRAM_SHA_512}${iterations}:{salt}${stored_key}:{server_key}"
    return yaml.safe_dump({user: entry}, width=1_000, allow_unicode=True).strip()


def load_credentials(path: str, decoy_key: bytes) -> Credentials:
    """Read the file. Raises InvalidConfigError, also when it cannot be read."""
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidConfigError(path, [f"cannot be read: {error}"]) from error
    if not isinstance(entries, dict) or not entries:
        raise InvalidConfigError(path, ["must be a mapping of users to their entries"])
    users: dict[str, ScramCredential] = {}
    problems = []
    for user, entry in entries.items():
        credential = _parse(entry)
        if isinstance(user, str) and user and credential is not None:
            users[user] = credential
        else:  # the entry itself is not shown: it may be a password, put there by mistake
            problems.append(f"{user!r}: not an entry made by `python -m sharegroup.gateway.security.hash_password`")
    if problems:
        raise InvalidConfigError(path, problems)
    return Credentials(users, decoy_key)


def _parse(entry: object) -> ScramCredential | None:
    match = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        return None
    try:
        salt, stored_key, server_key = (base64.b64decode(text, validate=True) for text in match.groups()[1:])
    except binascii.Error:
        return None
    iterations = int(match[1])
    is_whole = len(salt) >= 12 and len(stored_key) == len(server_key) == 64 and iterations >= 4_096
    return ScramCredential(salt, stored_key, server_key, iterations) if is_whole else None
