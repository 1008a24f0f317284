"""TLS between a listener's port and a client's connection.

As in asyncio's own TLS server, but for two things: a client counts as a connection from when it is accepted on and not
only once its handshake is done, and what a connection is read into is small.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import cast

from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.security import audit

#: As much as a TLS record holds. asyncio has 256 KiB for each connection.
READ_BUFFER_BYTES = 16_384


class TlsConnection(asyncio.Protocol):
    """Takes a client in and begins the handshake; a client for whom there is no place never gets as far as TLS."""

    def __init__(self, client: ClientConnection, context: ssl.SSLContext, handshake_timeout_s: float) -> None:
        self._client, self._context, self._handshake_timeout_s = client, context, handshake_timeout_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: begin the TLS handshake, if there is a place for the client."""
        if self._client.accepted(cast(asyncio.Transport, transport)):
            tls = _ServerSide(self._client, self._context, self._handshake_timeout_s)
            transport.set_protocol(tls)
            tls.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the client was not taken in."""
        self._client.connection_lost(exc)


class _ServerSide(SSLProtocol):
    """`client` has the accepted transport now, and is given that of TLS after the handshake."""

    max_size = READ_BUFFER_BYTES

    def __init__(self, client: ClientConnection, context: ssl.SSLContext, handshake_timeout_s: float) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            client,
            context,
            None,  # type: ignore[arg-type]  # a future where somebody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=handshake_timeout_s,  # type: ignore[arg-type]  # seconds, of any number type
        )
        self._client, self._accepted = client, client.transport

    def connection_lost(self, exc: BaseException | None) -> None:
        """asyncio's, which tells the client only of a connection whose handshake was done."""
        if self._client.transport is self._accepted:
            if isinstance(exc, ssl.SSLError):
                peer = self._client.transport.get_extra_info("peername") if self._client.transport else None
                audit.login_refused(str(peer[0]) if peer else "", "TLS", "", exc.reason or "")
            self._client.connection_lost(cast("Exception | None", exc))
        super().connection_lost(exc)
