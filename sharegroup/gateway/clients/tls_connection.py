"""TLS between a listening port and a client connection.

It differs from asyncio's own TLS server in two ways. An accepted client counts as a connection even before its TLS
handshake. Read buffers are smaller.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import cast

from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.security import audit

#: Size of the read buffer of a connection: one TLS record. asyncio's own buffer has 256 KiB.
READ_BUFFER_BYTES = 16_384


class TlsConnection(asyncio.Protocol):
    """Registers a client and starts its TLS handshake.

    If the client exceeds a limit, its connection is closed instead.
    """

    def __init__(self, client: ClientConnection, context: ssl.SSLContext, handshake_timeout_s: float) -> None:
        self._client, self._context, self._handshake_timeout_s = client, context, handshake_timeout_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the TLS handshake if the client is within the limits."""
        if self._client.register(cast(asyncio.Transport, transport)):
            tls = _ServerSide(self._client, self._context, self._handshake_timeout_s)
            transport.set_protocol(tls)
            tls.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify `ClientConnection` that a rejected client's connection has ended.

        asyncio does not call this method for other clients, because `_ServerSide` has become their protocol.
        """
        self._client.connection_lost(exc)


class _ServerSide(SSLProtocol):
    """The server side of a TLS connection.

    At first, `client` uses the accepted transport. After the handshake, it receives the TLS transport.
    """

    max_size = READ_BUFFER_BYTES

    def __init__(self, client: ClientConnection, context: ssl.SSLContext, handshake_timeout_s: float) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            client,
            context,
            None,  # type: ignore[arg-type]  # a future, if something waits for the handshake
            server_side=True,
            ssl_handshake_timeout=handshake_timeout_s,  # type: ignore[arg-type]  # seconds, any number type
        )
        self._client, self._accepted = client, client.transport

    def connection_lost(self, exc: BaseException | None) -> None:
        """Pass the end of the connection to `client` if the handshake was not completed.

        After a completed handshake, asyncio does this itself.
        """
        if self._client.transport is self._accepted:
            if isinstance(exc, ssl.SSLError):
                peer = self._client.transport.get_extra_info("peername") if self._client.transport else None
                audit.log_rejected_login(str(peer[0]) if peer else "", "TLS", "", exc.reason or "")
            self._client.connection_lost(cast("Exception | None", exc))
        super().connection_lost(exc)
