"""Access control of the page: the gateway's users and access control list, with HTTP Basic (RFC 7617).

If no users are configured and the page listens on a loopback address, the host name in a request must be localhost or a
loopback address. Other host names are rejected, because the name of another site may resolve to this machine (DNS
rebinding). Requests that change something must contain a token from a page of this process. So another site cannot
send such requests on behalf of a user (CSRF).

Logins from one IP address are checked one after the other, as in the gateway. Successful logins are cached, so later
requests with the same login do not wait.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import threading
from collections import Counter, OrderedDict
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.gateway.clients.logins.login_turns import LoginTurns
from sharegroup.security import audit
from sharegroup.security.authentication.credentials import Credentials, load_credentials
from sharegroup.security.caller import Caller
from sharegroup.security.listener import is_loopback
from sharegroup.security.reloading import Reloading, ReloadingFiles

#: Maximum number of cached successful logins. If there are more, the oldest login is removed and later checked again.
_MAX_KNOWN = 256
_ANONYMOUS = "User:ANONYMOUS"
#: Maximum number of logins from one IP address that wait for their password check.
_MAX_WAITING = 16
#: Maximum number of concurrent requests.
_MAX_REQUESTS = 100
#: The values of `api` and `mechanism` in the audit log for requests to the page.
_API, _MECHANISM = "page", "HTTP-Basic"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Tokens:
    """Creates and verifies the tokens of HTML forms. A token proves that this process created the form for the user."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, principal: str) -> str:
        return hmac.digest(self._secret, principal.encode(errors="replace"), "sha256").hex()

    def is_token(self, principal: str, token: str) -> bool:
        return hmac.compare_digest(self.token(principal).encode(), token.encode(errors="replace"))


class Access:
    """ASGI middleware that requires a login if users are configured. It sets `scope["caller"]` for the pages."""

    def __init__(self, app: ASGIApp, config: GatewayConfig, host: str) -> None:
        self._app = app
        read = partial(load_credentials, config.sasl_users, secrets.token_bytes(32))
        self._logins = _Logins(ReloadingFiles(read, [config.sasl_users])) if config.sasl_users else None
        self._turns = LoginTurns(config.failed_authentication_delay_ms / 1000)
        self._waiting: Counter[str] = Counter()
        self._requests = 0
        self._names_only = self._logins is None and is_loopback(host)

    def reload(self) -> None:
        """Reload the users if their file has changed. Call this every second on a thread, because it blocks."""
        if self._logins is not None:
            self._logins.reload()

    def close(self) -> None:
        """Start no further password checks. Does not wait for checks in progress."""
        self._turns.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or set `scope["caller"]` and pass the request to the pages. Called by the ASGI server.

        Adds headers to each response. With these headers, browsers restrict what the page can do.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in names
                ]
            await send(message)

        rejection = await self._rejection(scope)
        if rejection is None and self._requests >= _MAX_REQUESTS:
            rejection = _busy("too many concurrent requests")
        self._requests += 1
        try:
            await (rejection or self._app)(scope, receive, send_with_headers)
        finally:
            self._requests -= 1

    async def _rejection(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._names_only and not _is_this_machine(headers.get("host", "")):
            return PlainTextResponse("this page is only available as localhost or under a loopback address", 421)
        principal = _ANONYMOUS
        host = scope["client"][0] if scope.get("client") else ""
        if self._logins is not None:
            login = _login_of(headers.get("authorization", ""))
            if login is not None and not self._logins.is_known(login):
                if self._waiting[host] >= _MAX_WAITING:
                    return _busy("too many concurrent logins from this address")
                if not await self._prove(self._logins, login, host):
                    login = None
            if login is None:
                challenge = {"www-authenticate": 'Basic realm="sharegroup", charset="UTF-8"'}
                return PlainTextResponse("the user is not known, or the password is wrong", 401, challenge)
            principal = f"User:{login.user}"
        scope["caller"] = Caller(0, 0, host, principal, api=_API)
        return None

    async def _prove(self, logins: _Logins, login: _Login, host: str) -> bool:
        """Return whether the password of a login is correct. `host` is the address that the login comes from.

        Logins from one address are checked one at a time, in the order of their arrival. A wrong password delays its
        own result and the next login from this address.
        """
        results: list[bool] = []
        self._waiting[host] += 1
        try:
            await self._turns.run(host, lambda: results.append(logins.prove(login, host)), lambda: results == [False])
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host]
        return results[0]


def _busy(reason: str) -> Response:
    return PlainTextResponse(f"{reason}; try again", 503, {"retry-after": "1"})


def _is_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


class _Login(NamedTuple):
    """User and password of a header `Authorization`."""

    user: str
    password: str


def _login_of(authorization: str) -> _Login | None:
    """Return the login in the value of an `Authorization` header, None if it is not a valid HTTP Basic login."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > 4_096:
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return _Login(user, password) if colon else None


class _Logins:
    """Checks passwords, one at a time, and caches successful logins."""

    def __init__(self, users: Reloading[Credentials]) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._proving = threading.Lock()

    def reload(self) -> None:
        """Reload the users if their file has changed. In this case, also discard all cached logins."""
        if self._users.check():
            with self._proving:
                self._known.clear()

    def is_known(self, login: _Login) -> bool:
        """Return whether the login is in the cache of successful logins. The password is not checked."""
        return self._digest(login) in self._known

    def prove(self, login: _Login, host: str) -> bool:
        """Return whether the password is correct. Write the result to the audit log, and cache a successful login.

        The check takes milliseconds by design, to slow down guessing. If the login is already cached, return True.
        """
        with self._proving:
            if self.is_known(login):
                return True
            if not self._users.value.get_credential(login.user).matches(login.password):
                audit.log_rejected_login(
                    host, _MECHANISM, login.user, "the user is not known, or the password is wrong"
                )
                return False
            audit.log_login(Caller(0, 0, host, f"User:{login.user}", api=_API), _MECHANISM)
            self._known[self._digest(login)] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
            return True

    def _digest(self, login: _Login) -> bytes:
        return hmac.digest(self._key, f"{login.user}:{login.password}".encode(), "sha256")
