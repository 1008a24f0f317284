"""Who may see the page: the gateway's users and its access control list, over HTTP Basic (RFC 7617).

Without users the page is for this machine alone, and then only under a name of this machine: a site that has its own
name lead here (DNS rebinding) is refused. What changes something carries a token that only pages of this process have,
so that no other site can send it in a user's name (CSRF).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from functools import partial
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sharegroup.config.gateway import GatewayConfig
from sharegroup.gateway.security import audit
from sharegroup.gateway.security.credentials import Credentials, load_credentials
from sharegroup.gateway.security.kept import Kept, KeptFiles
from sharegroup.gateway.security.listener import is_loopback
from sharegroup.gateway.wire.request import Caller

__all__ = ["Access", "Tokens"]

#: Logins that are known to be right; more are proved again.
_MOST_KNOWN = 256
_ANONYMOUS = "User:ANONYMOUS"
#: What the audit has for an API and for a mechanism here.
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
    """Proofs that a form is of this process and of this user."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def token(self, principal: str) -> str:
        """The proof."""
        return hmac.digest(self._secret, principal.encode(errors="replace"), "sha256").hex()

    def proves(self, principal: str, token: str) -> bool:
        """Whether it is that."""
        return hmac.compare_digest(self.token(principal).encode(), token.encode(errors="replace"))


class Access:
    """ASGI in front of the pages: who is not logged in is asked to. `scope["caller"]` is who asks, for the pages."""

    def __init__(self, app: ASGIApp, config: GatewayConfig, host: str) -> None:
        self._app = app
        read = partial(load_credentials, config.sasl_users, secrets.token_bytes(32))
        self._logins = _Logins(KeptFiles(read, [config.sasl_users])) if config.sasl_users else None
        self._names_only = self._logins is None and is_loopback(host)

    def look(self) -> None:
        """Read the users again if they have changed. Blocks; for every second."""
        if self._logins is not None:
            self._logins.look()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's."""
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

        refusal = await self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._names_only and not _is_this_machine(headers.get("host", "")):
            return PlainTextResponse("this page is at localhost only", 421)
        principal = _ANONYMOUS
        host = scope["client"][0] if scope.get("client") else ""
        if self._logins is not None:
            user = await run_in_threadpool(self._logins.user, headers.get("authorization", ""), host)
            if user is None:
                challenge = {"www-authenticate": 'Basic realm="sharegroup", charset="UTF-8"'}
                return PlainTextResponse("the user is not known, or the password is wrong", 401, challenge)
            principal = f"User:{user}"
        scope["caller"] = Caller(0, 0, host, principal, api=_API)
        return None


def _is_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


class _Logins:
    """Checks passwords, one at a time: who tries many has one thread to do it on."""

    def __init__(self, users: Kept[Credentials]) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._proving = threading.Lock()

    def look(self) -> None:
        """What was proved by users of before has to be proved again."""
        if self._users.look():
            with self._proving:
                self._known.clear()

    def user(self, authorization: str, host: str) -> str | None:
        """The user of a header `Authorization` from an address; None when it proves none."""
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic" or len(encoded) > 4_096:
            return None
        seen = hmac.new(self._key, encoded.encode(errors="replace"), hashlib.sha256).digest()
        with self._proving:
            if (known := self._known.get(seen)) is not None:
                return known
            try:
                user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                return None
            if not colon or not self._users.value.credential(user).proves(password):
                audit.login_refused(host, _MECHANISM, user, "the user is not known, or the password is wrong")
                return None
            audit.login_accepted(Caller(0, 0, host, f"User:{user}", api=_API), _MECHANISM)
            self._known[seen] = user
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
            return user
