"""The keys that prove tokens: a JSON Web Key Set (RFC 7517), from a file or by HTTPS."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import jwt

from sharegroup.errors import InvalidConfigError

#: How long an answer may take, and how long it may be: such a set has a handful of keys of some hundred bytes.
FETCH_TIMEOUT_S = 5.0
MAX_BYTES = 1_048_576
#: Public keys; the secret ones of HS256 and the like (`oct`) prove nothing here.
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})


class TokenKeys:
    """Keys by their `kid`."""

    def __init__(self, keys: Mapping[str | None, Mapping[str, Any]]) -> None:
        self._keys = keys

    def has(self, key_id: str | None) -> bool:
        """Whether there is such a key; a token without a `kid` is meant for the only one."""
        return self._key(key_id) is not None

    def key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key for one algorithm, None if there is none. Raises jwt.PyJWTError for one of another kind."""
        found = self._key(key_id)
        if found is None or found.get("alg", algorithm) != algorithm:
            return None
        return jwt.PyJWK(dict(found), algorithm)

    def _key(self, key_id: str | None) -> Mapping[str, Any] | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)


def parse_keys(text: str | bytes, source: str) -> TokenKeys:
    """Read a key set: its public keys for signatures. Raises InvalidConfigError, also when there is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidConfigError(source, ["is no JSON"]) from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise InvalidConfigError(source, ["is no JSON Web Key Set: a mapping with a list `keys`"])
    found = {key.get("kid"): key for key in listed if isinstance(key, dict) and _is_for_signatures(key)}
    if not found:
        raise InvalidConfigError(source, ["has no public key for signatures"])
    return TokenKeys(found)


def _is_for_signatures(key: Mapping[str, Any]) -> bool:
    is_named = isinstance(key.get("kid"), str | None)
    is_public = key.get("kty") in _KEY_TYPES and "d" not in key
    return is_named and is_public and key.get("use", "sig") == "sig"


def keys_path(url: str) -> str | None:
    """The path of a `file:` URL; None for `https:`. Raises InvalidConfigError for any other."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return unquote(parts.path)
    if parts.scheme == "https" and parts.hostname and parts.username is None:
        return None
    # By plain HTTP anybody in between could put his own key into the set. What is wrong is not shown: there may be a
    # password in it.
    problem = "gateway.sasl.oauthbearer.jwks.endpoint.url: not a file: or https: URL without a user"
    raise InvalidConfigError("gateway", [problem])


def read_keys(path: str) -> TokenKeys:
    """Read a file. Raises InvalidConfigError."""
    try:
        return parse_keys(Path(path).read_bytes(), path)
    except OSError as error:
        raise InvalidConfigError(path, [f"cannot be read: {error}"]) from error


def fetch_keys(url: str) -> TokenKeys:
    """Ask a server; takes up to some seconds. Raises InvalidConfigError."""
    opener = urllib.request.build_opener(_StayThere)
    try:
        with opener.open(url, timeout=FETCH_TIMEOUT_S) as response:
            text = response.read(MAX_BYTES)
    except (OSError, ValueError, EOFError) as error:  # URLError is an OSError, as are those of TLS
        raise InvalidConfigError(url, [f"cannot be read: {error}"]) from error
    return parse_keys(text, url)


class _StayThere(urllib.request.HTTPRedirectHandler):
    """Another address is not what was configured, and may have no TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """urllib's: refuse, as any answer that is none."""
        raise urllib.error.HTTPError(req.full_url, code, "redirects are not followed", headers, fp)
