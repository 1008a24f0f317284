"""Who may log in by a password: a YAML file of users and what proves their passwords. No password is in it.

    alice: SCRAM-SHA-512$8192:<salt>$<stored key>:<server key>
    bob: [SCRAM-SHA-512$..., SCRAM-SHA-256$...]

SCRAM proves the password without sending it, by the entry of its own hash; for PLAIN the stored key of any entry is
computed from what was sent. `sharegroup hash-password alice` makes such a line.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from scramp import ScramException, ScramMechanism

from sharegroup.errors import InvalidConfigError

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
#: Strongest first: PLAIN is proved by the first that a user has.
SCRAM_MECHANISMS: Mapping[str, ScramMechanism] = {
    SCRAM_SHA_512: ScramMechanism(SCRAM_SHA_512),
    SCRAM_SHA_256: ScramMechanism(SCRAM_SHA_256),
}
#: A stolen file is to be slow to search, and a login over PLAIN quick to check: some milliseconds.
ITERATIONS = 8_192
_KEY_BYTES: Mapping[str, int] = {SCRAM_SHA_512: 64, SCRAM_SHA_256: 32}
_SALT_BYTES = 12
#: Of the salts that scramp makes.
_MADE_SALT_BYTES = 32
_ENTRY = re.compile(r"(SCRAM-SHA-(?:256|512))\$(\d{4,8}):([^$:]+)\$([^$:]+):([^$:]+)")


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The server's half of a password (RFC 5802), for one mechanism. Its repr shows none of it."""

    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<credential for {self.mechanism}>"

    @property
    def for_scramp(self) -> tuple[bytes, bytes, bytes, int]:
        """The fields in scramp's order."""
        return self.salt, self.stored_key, self.server_key, self.iterations

    def proves(self, password: str) -> bool:
        """Whether it is the password. Takes milliseconds, on purpose."""
        try:
            _, stored_key, _, _ = SCRAM_MECHANISMS[self.mechanism].make_auth_info(password, self.iterations, self.salt)
        except ScramException:  # characters that no password may have (RFC 4013)
            return False
        return hmac.compare_digest(stored_key, self.stored_key)


class Credentials:
    """The users of the file. An unknown user's login goes the same way as a wrong password of some known user.

    An unknown user seems to have a credential of the form that a known user has: its mechanism, its iterations, which
    decide how long a check takes, and the length of its salt. The user's name decides which form, so it stays the same.

    `users` are each user's credentials by mechanism; `decoy_key` is a secret of this process, for the credentials that
    unknown users seem to have.
    """

    def __init__(self, users: Mapping[str, Mapping[str, ScramCredential]], decoy_key: bytes) -> None:
        self._users, self._decoy_key = users, decoy_key
        found = [users[user][name] for user in sorted(users) for name in SCRAM_MECHANISMS if name in users[user]]
        #: By mechanism, None: for PLAIN.
        self._forms: dict[str | None, list[ScramCredential]] = {
            name: [each for each in found if each.mechanism == name] for name in SCRAM_MECHANISMS
        }
        self._forms[None] = [_strongest(users[user]) for user in sorted(users)]

    def credential(self, user: str, mechanism: str | None = None) -> ScramCredential:
        """The user's credential for a mechanism of SCRAM, None: for PLAIN.

        One that no password fits for who has none.
        """
        known = self._users.get(user)
        if known and mechanism is None:
            return _strongest(known)
        return (known or {}).get(mechanism or "") or self._decoy(user, mechanism)

    def _decoy(self, user: str, mechanism: str | None) -> ScramCredential:
        seed = hmac.digest(self._decoy_key, f"{mechanism} {user}".encode(errors="replace"), "sha512")
        forms = self._forms[mechanism] or [_usual(mechanism or SCRAM_SHA_512)]
        form = forms[int.from_bytes(seed[:8], "big") % len(forms)]
        made = hashlib.shake_256(seed).digest(len(form.salt) + len(form.stored_key))
        salt, key = made[: len(form.salt)], made[len(form.salt) :]
        return ScramCredential(form.mechanism, salt, key, key, form.iterations)


def _strongest(credentials: Mapping[str, ScramCredential]) -> ScramCredential:
    """The credential of a user that PLAIN is proved by."""
    return next(credentials[name] for name in SCRAM_MECHANISMS if name in credentials)


def _usual(mechanism: str) -> ScramCredential:
    """A credential of the form that `hash_password` makes."""
    key = bytes(_KEY_BYTES[mechanism])
    return ScramCredential(mechanism, bytes(_MADE_SALT_BYTES), key, key, ITERATIONS)


def hash_password(user: str, password: str, mechanisms: Sequence[str] = (SCRAM_SHA_512,)) -> str:
    """The line of the file for a user with this password, with new random salts.

    Raises ValueError for a user or password that SASL does not allow (empty, or control characters: RFC 4013).
    """
    if not user or not password:
        raise ValueError("neither user nor password may be empty")
    try:
        entries = [_entry(password, mechanism) for mechanism in mechanisms]
    except ScramException as error:
        raise ValueError(f"not allowed in a password: {error}") from error
    line = {user: entries[0] if len(entries) == 1 else entries}
    return yaml.safe_dump(line, width=1_000, allow_unicode=True).strip()


def _entry(password: str, mechanism: str) -> str:
    *parts, iterations = SCRAM_MECHANISMS[mechanism].make_auth_info(password, ITERATIONS)
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in parts)
    return f"{mechanism}${iterations}:{salt}${stored_key}:{server_key}"


def load_credentials(path: str, decoy_key: bytes) -> Credentials:
    """Read the file. Raises InvalidConfigError, also when it cannot be read."""
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(path, [f"cannot be read: {error}"]) from error
    except yaml.YAMLError as error:  # its own text shows the line, which may have a password in it
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise InvalidConfigError(path, [f"cannot be read: not valid YAML{where}"]) from None
    if not isinstance(entries, dict) or not entries:
        raise InvalidConfigError(path, ["must be a mapping of users to their entries"])
    users: dict[str, Mapping[str, ScramCredential]] = {}
    problems = []
    for user, entry in entries.items():
        credentials = _parse(entry if isinstance(entry, list) else [entry])
        if isinstance(user, str) and user and credentials is not None:
            users[user] = credentials
        else:  # the entry itself is not shown: it may be a password, put there by mistake
            problems.append(f"{user!r}: not an entry made by `sharegroup hash-password`")
    if problems:
        raise InvalidConfigError(path, problems)
    return Credentials(users, decoy_key)


def _parse(entries: Sequence[object]) -> dict[str, ScramCredential] | None:
    """By mechanism; None when one is no entry, there is none, or two are for the same mechanism."""
    parsed = [_parse_one(entry) for entry in entries]
    credentials = {credential.mechanism: credential for credential in parsed if credential is not None}
    return credentials if credentials and len(credentials) == len(entries) else None


def _parse_one(entry: object) -> ScramCredential | None:
    match = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        return None
    mechanism, iterations = match[1], int(match[2])
    try:
        salt, stored_key, server_key = (base64.b64decode(text, validate=True) for text in match.groups()[2:])
    except binascii.Error:
        return None
    has_keys = len(stored_key) == len(server_key) == _KEY_BYTES[mechanism]
    is_whole = has_keys and len(salt) >= _SALT_BYTES and iterations >= 4_096
    return ScramCredential(mechanism, salt, stored_key, server_key, iterations) if is_whole else None
