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
    """The first protocol of an accepted TLS connection: registers the client and starts the TLS handshake.

    If a connection limit rejects the client, the connection is closed instead. `_ServerSide` is the protocol from the
    handshake on.
    """

    def __init__(self, client: ClientConnection, context: ssl.SSLContext, handshake_timeout_s: float) -> None:
        self._client, self._context, self._handshake_timeout_s = client, context, handshake_timeout_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the client. If no connection limit rejects it, start the TLS handshake."""
        if self._client.register(cast(asyncio.Transport, transport)):
            tls = _ServerSide(self._client, self._context, self._handshake_timeout_s)
            transport.set_protocol(tls)
            tls.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify `ClientConnection` that the connection of a rejected client has ended.

        asyncio calls this method only for rejected clients. For the others, `_ServerSide` has become the protocol.
        """
        self._client.connection_lost(exc)


class _ServerSide(SSLProtocol):
    """The server side of a TLS connection.

    Until the end of the handshake, the transport of `client` is the accepted TCP transport. After the handshake,
    asyncio passes the TLS transport to `client`.
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
        """If the handshake was not completed, notify `client` that the connection has ended.

        A TLS error is also written to the audit log. After a completed handshake, asyncio notifies `client` itself.
        """
        if self._client.transport is self._accepted:
            if isinstance(exc, ssl.SSLError):
                peer = self._client.transport.get_extra_info("peername") if self._client.transport else None
                audit.log_rejected_login(str(peer[0]) if peer else "", "TLS", "", exc.reason or "")
            self._client.connection_lost(cast("Exception | None", exc))
        super().connection_lost(exc)
