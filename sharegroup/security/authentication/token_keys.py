"""The keys that verify tokens: a JSON Web Key Set (RFC 7517), from a file or by HTTPS."""

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import unquote, urlsplit

import jwt

from sharegroup.errors import InvalidConfigError

#: The limits of a response with a key set: its duration in seconds, and its size in bytes. A key set has a few keys of
#: some hundred bytes each.
FETCH_TIMEOUT_S = 5.0
MAX_BYTES = 1_048_576
#: Types of public keys. Secret keys (`oct`, for HS256 and the like) are not accepted.
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})


class TokenKeys:
    """The keys of a key set as {key id (`kid`): key}."""

    def __init__(self, keys: Mapping[str | None, Mapping[str, Any]]) -> None:
        self._keys = keys

    def has_key(self, key_id: str | None) -> bool:
        """Return whether the set has the key of a token. `key_id` is None if the token names no key.

        A token that names no key is verified with the only key of the set. If the set has several keys, it is verified
        with the key that has no id.
        """
        return self._key(key_id) is not None

    def get_key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key that verifies a token signed with `algorithm`. `key_id` has the same meaning as in `has_key`.

        Returns None if the set does not have the key, or if the key is for another algorithm. Raises jwt.PyJWTError if
        the key's type does not fit the algorithm.
        """
        found = self._key(key_id)
        if found is None or found.get("alg", algorithm) != algorithm:
            return None
        return jwt.PyJWK(dict(found), algorithm)

    def _key(self, key_id: str | None) -> Mapping[str, Any] | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)


def parse_keys(text: str | bytes, source: str) -> TokenKeys:
    """Parse the public signature keys of a key set. Error messages name the key set by `source`.

    Raises InvalidConfigError if the text is not a key set or contains no public signature key.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidConfigError(source, ["the key set is not JSON"]) from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise InvalidConfigError(source, ["the content is not a JSON Web Key Set (a mapping with a list `keys`)"])
    found = {key.get("kid"): key for key in listed if isinstance(key, dict) and _is_for_signatures(key)}
    if not found:
        raise InvalidConfigError(source, ["the key set has no public key for signatures"])
    return TokenKeys(found)


def _is_for_signatures(key: Mapping[str, Any]) -> bool:
    is_named = isinstance(key.get("kid"), str | None)
    is_public = key.get("kty") in _KEY_TYPES and "d" not in key
    return is_named and is_public and key.get("use", "sig") == "sig"


def keys_path(url: str) -> str | None:
    """Return the path of a `file:` URL, None for an `https:` URL. Raises InvalidConfigError for other URLs."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return unquote(parts.path)
    if parts.scheme == "https" and parts.hostname and parts.username is None:
        return None
    # Plain HTTP would allow a man in the middle to add keys. The URL is not logged, because it may contain a password.
    problem = "gateway.sasl.oauthbearer.jwks.endpoint.url must be a file: or https: URL, without a user"
    raise InvalidConfigError("gateway", [problem])


def read_keys(path: str) -> TokenKeys:
    """Read a key set from a file. Raises InvalidConfigError if it is invalid or cannot be read."""
    try:
        return parse_keys(Path(path).read_bytes(), path)
    except OSError as error:
        raise InvalidConfigError(path, [f"the key set cannot be read: {error}"]) from error


def fetch_keys(url: str, timeout_s: float = FETCH_TIMEOUT_S) -> TokenKeys:
    """Request a key set from a server.

    Raises InvalidConfigError if the request fails, or if there is no complete response within `timeout_s` seconds. Also
    raises it if the response is invalid or larger than `MAX_BYTES`.
    """
    with _Deadline(timeout_s) as deadline:
        opener = urllib.request.build_opener(_StayThere, _Http(deadline), _Https(deadline))
        try:
            with opener.open(url, timeout=timeout_s) as response:
                text = response.read(MAX_BYTES + 1)
        except (OSError, ValueError, EOFError, HTTPException) as error:  # URLError is an OSError, as are those of TLS
            reason = deadline.problem or str(error)
            raise InvalidConfigError(url, [f"the key set cannot be read: {reason}"]) from error
        if deadline.problem:
            raise InvalidConfigError(url, [f"the key set cannot be read: {deadline.problem}"])
    if len(text) > MAX_BYTES:
        raise InvalidConfigError(url, [f"the key set cannot be read: the response is larger than {MAX_BYTES} bytes"])
    return parse_keys(text, url)


class _Deadline:
    """Closes the connections of a request at its deadline.

    The timeout of a socket would not be sufficient, because it applies to each read. A server that sends single bytes
    could then block the thread for days.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True
        self._connected: list[socket.socket] = []
        self._ending = threading.Lock()
        self._end_s = time.monotonic() + timeout_s

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._ending:
            for each in self._connected:
                each.close()
            self._connected.clear()

    @property
    def problem(self) -> str:
        """Return the reason why the request failed if the deadline has passed, else an empty text.

        The socket's own timeout can also make a read fail. This never happens before the deadline, so the reason is the
        same.
        """
        is_over = time.monotonic() >= self._end_s
        return f"no complete response within {self._timeout_s:g} s" if is_over else ""

    def connect(self, *where: Any) -> socket.socket:
        """Connect like `socket.create_connection`, and return the socket. Raises OSError.

        The connection is shut down at the deadline.
        """
        connected = socket.create_connection(*where)
        with self._ending:
            self._connected.append(connected.dup())  # TLS takes over the socket
        if self.problem:
            self._end()
        return connected

    def _end(self) -> None:
        with self._ending:
            for each in self._connected:
                with contextlib.suppress(OSError):  # the server may have closed it
                    each.shutdown(socket.SHUT_RDWR)


def _ending(connection: Callable[..., HTTPConnection], deadline: _Deadline, host: str, **given: Any) -> HTTPConnection:
    made = connection(host, **given)
    made._create_connection = deadline.connect  # type: ignore[attr-defined]  # there is no public way
    return made


class _Http(urllib.request.HTTPHandler):
    """Opens HTTP connections that are closed when the request's deadline passes.

    Only tests need them, because configured URLs are HTTPS (`keys_path`).
    """

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Send a request on a new connection and return the response. Called by urllib."""
        return self.do_open(partial(_ending, HTTPConnection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    """Opens HTTPS connections that are closed when the request's deadline passes.

    Servers are verified with Python's default CA certificates.
    """

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Send a request on a new connection and return the response. Called by urllib."""
        return self.do_open(partial(_ending, HTTPSConnection, self._deadline), req)


class _StayThere(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, because their target is not configured and may not use TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Reject the redirect with an error. Called by urllib."""
        raise urllib.error.HTTPError(req.full_url, code, "redirects are not followed", headers, fp)
