"""The file of users, a YAML file with SCRAM credentials. It contains no passwords.

    alice: SCRAM-SHA-512$8192:<salt>$<stored key>:<server key>
    bob: [SCRAM-SHA-512$..., SCRAM-SHA-256$...]

A SCRAM login does not send the password. The login is verified with the user's entry for the same SCRAM mechanism. A
PLAIN login sends the password. The gateway computes a stored key from the password, and compares it with the stored key
of the user's strongest mechanism. `sharegroup hash-password alice` creates a line of the file.
"""

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
#: The SCRAM mechanisms, strongest first. A PLAIN login is verified with the first mechanism that the user has.
SCRAM_MECHANISMS: Mapping[str, ScramMechanism] = {
    SCRAM_SHA_512: ScramMechanism(SCRAM_SHA_512),
    SCRAM_SHA_256: ScramMechanism(SCRAM_SHA_256),
}
#: Number of hash iterations of new entries. With this number, checking one password takes some milliseconds, so that
#: guessing the passwords of a stolen file is slow.
ITERATIONS = 8_192
_KEY_BYTES: Mapping[str, int] = {SCRAM_SHA_512: 64, SCRAM_SHA_256: 32}
_SALT_BYTES = 12
#: Length of the salts that scramp creates.
_MADE_SALT_BYTES = 32
_ENTRY = re.compile(r"(SCRAM-SHA-(?:256|512))\$(\d{4,8}):([^$:]+)\$([^$:]+):([^$:]+)")


@dataclass(frozen=True, slots=True, repr=False)
class ScramCredential:
    """The keys that verify a user's password for one SCRAM mechanism (RFC 5802). The repr does not show the keys."""

    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<credential for {self.mechanism}>"

    @property
    def for_scramp(self) -> tuple[bytes, bytes, bytes, int]:
        """Return the fields in the order that the library scramp expects."""
        return self.salt, self.stored_key, self.server_key, self.iterations

    def matches(self, password: str) -> bool:
        """Return whether the password is correct. Takes milliseconds by design."""
        try:
            _, stored_key, _, _ = SCRAM_MECHANISMS[self.mechanism].make_auth_info(password, self.iterations, self.salt)
        except ScramException:  # characters that are not allowed in passwords (RFC 4013)
            return False
        return hmac.compare_digest(stored_key, self.stored_key)


class Credentials:
    """The users in the credentials file. A client cannot distinguish an unknown user from a wrong password.

    The login of an unknown user is verified with a decoy credential. The decoy resembles the credential of a known
    user: it has the same mechanism, salt length and number of iterations, which determines how long a check takes. The
    decoy is derived from the unknown user's name, so each login with this name uses the same decoy.

    `users` is {user: {mechanism: credential}}. `decoy_key` is a secret of this process from which decoys are derived.
    """

    def __init__(self, users: Mapping[str, Mapping[str, ScramCredential]], decoy_key: bytes) -> None:
        self._users, self._decoy_key = users, decoy_key
        found = [users[user][name] for user in sorted(users) for name in SCRAM_MECHANISMS if name in users[user]]
        #: {mechanism: credentials of known users that decoys imitate}. The key None stands for PLAIN.
        self._forms: dict[str | None, list[ScramCredential]] = {
            name: [each for each in found if each.mechanism == name] for name in SCRAM_MECHANISMS
        }
        self._forms[None] = [_strongest(users[user]) for user in sorted(users)]

    def get_credential(self, user: str, mechanism: str | None = None) -> ScramCredential:
        """Return the user's credential for a SCRAM mechanism, or for PLAIN if `mechanism` is None.

        If the user has no such credential, return a decoy that no password matches.
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
    """Return the user's credential of the strongest mechanism. It verifies PLAIN logins."""
    return next(credentials[name] for name in SCRAM_MECHANISMS if name in credentials)


def _usual(mechanism: str) -> ScramCredential:
    """Return the credential that the decoys of unknown users imitate if no known user has one for this mechanism.

    Its salt length and number of iterations are those of `hash_password`.
    """
    key = bytes(_KEY_BYTES[mechanism])
    return ScramCredential(mechanism, bytes(_MADE_SALT_BYTES), key, key, ITERATIONS)


def hash_password(user: str, password: str, mechanisms: Sequence[str] = (SCRAM_SHA_512,)) -> str:
    """Return the line of the file for a user with this password. The line has new random salts.

    Raises ValueError if user or password is empty, or if SASL does not allow a character of the password (RFC 4013).
    """
    if not user or not password:
        raise ValueError("neither user nor password may be empty")
    try:
        entries = [_entry(password, mechanism) for mechanism in mechanisms]
    except ScramException as error:
        raise ValueError(f"the password contains a character that is not allowed: {error}") from error
    line = {user: entries[0] if len(entries) == 1 else entries}
    return yaml.safe_dump(line, width=1_000, allow_unicode=True).strip()


def _entry(password: str, mechanism: str) -> str:
    *parts, iterations = SCRAM_MECHANISMS[mechanism].make_auth_info(password, ITERATIONS)
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in parts)
    return f"{mechanism}${iterations}:{salt}${stored_key}:{server_key}"


def load_credentials(path: str, decoy_key: bytes) -> Credentials:
    """Read the users from a file. Raises InvalidConfigError if it is invalid or cannot be read."""
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfigError(path, [f"the file cannot be read: {error}"]) from error
    except yaml.YAMLError as error:  # its text contains the line, which may contain a password
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise InvalidConfigError(path, [f"the file cannot be read: not valid YAML{where}"]) from None
    if not isinstance(entries, dict) or not entries:
        raise InvalidConfigError(path, ["the file must map each user to its credentials"])
    users: dict[str, Mapping[str, ScramCredential]] = {}
    problems = []
    for user, entry in entries.items():
        credentials = _parse(entry if isinstance(entry, list) else [entry])
        if isinstance(user, str) and user and credentials is not None:
            users[user] = credentials
        else:  # the entry is not logged: it may be a password
            problems.append(f"{user!r}: not an entry made by `sharegroup hash-password`")
    if problems:
        raise InvalidConfigError(path, problems)
    return Credentials(users, decoy_key)


def _parse(entries: Sequence[object]) -> dict[str, ScramCredential] | None:
    """Return {mechanism: credential} for a user's entries.

    Returns None if there are no entries, if an entry is invalid, or if a mechanism occurs twice.
    """
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
