"""A listening port that accepts a few clients at a time. If no file descriptor is left, it disconnects new clients.

asyncio's own server accepts up to a thousand clients in a row, and serves no client meanwhile. If no descriptor is
left, asyncio leaves new clients in the queue until they time out. This acceptor keeps a spare descriptor. If no other
descriptor is left, it uses the spare one to accept and disconnect new clients, so that they can try another gateway
immediately.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Self

from sharegroup.gateway.clients.accepting.log_throttle import LogThrottle
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Maximum number of clients that are accepted or rejected before existing connections are served again.
MAX_ACCEPTS = 16
#: Pause after clients were rejected because descriptors are exhausted, in seconds.
EXHAUSTED_PAUSE_S = 0.1
#: Errors that mean that the process or the machine has no descriptors left. The spare descriptor is used only after
#: these errors.
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
#: Errors after which the acceptor pauses: those of `_NO_DESCRIPTOR`, and a lack of buffers or memory.
_EXHAUSTED = _NO_DESCRIPTOR | {errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """The listening sockets of one port, on which clients are accepted until `close` is called.

    `connect` returns a new asyncio protocol for each client. Must be created and used on one event loop.
    """

    def __init__(self, connect: Callable[[], asyncio.BaseProtocol], sockets: list[socket.socket]) -> None:
        self._connect, self.sockets = connect, sockets
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._throttle = LogThrottle()
        self._spare: int | None = None
        self._open_spare()
        for listening in sockets:
            self._listen(listening)

    @classmethod
    async def listen(cls, connect: Callable[[], asyncio.BaseProtocol], host: str, port: int, backlog: int) -> Self:
        """Listen on all addresses of `host`. Port 0 means any free port. Raises OSError if a port cannot be opened."""
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                sockets.append(socket.create_server(address, family=family, backlog=backlog))
                sockets[-1].setblocking(False)
        except BaseException:
            for each in sockets:
                each.close()
            raise
        return cls(connect, sockets)

    def close(self) -> None:
        """Stop accepting clients. Existing connections stay open. A second call has no effect."""
        while self.sockets:
            listening = self.sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()
        for pause in self._pauses.values():
            pause.cancel()
        for task in self._connecting:
            task.cancel()
        self._close_spare()

    def _listen(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._accept_some, listening)

    def _accept_some(self, listening: socket.socket) -> None:
        """Accept up to `MAX_ACCEPTS` waiting clients. If descriptors or memory are exhausted, call `_reject_some`."""
        for _ in range(MAX_ACCEPTS):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    logger.warning("failed to accept a connection: %(error)s", LogFields(error=error))
                    return
                self._reject_some(listening, error)
                return
            accepted.setblocking(False)
            _disable_nagle(accepted)
            self._connect_client(accepted)

    def _connect_client(self, accepted: socket.socket) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(self._loop.connect_accepted_socket(self._connect, accepted))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, accepted))

    def _connected(self, accepted: socket.socket, task: asyncio.Task[object]) -> None:
        self._connecting.discard(task)
        if task.cancelled():
            accepted.close()
        elif (error := task.exception()) is not None:
            accepted.close()
            logger.warning("failed to accept a connection: %(error)s", LogFields(error=error))

    # -- without descriptors ---------------------------------------------------------------------------------------

    def _reject_some(self, listening: socket.socket, error: OSError) -> None:
        """Reject up to `MAX_ACCEPTS` waiting clients. Then accept no clients on this socket for `EXHAUSTED_PAUSE_S`.

        Existing connections are served during the pause. If `error` is a lack of file descriptors, the spare descriptor
        is used to reject clients. If it is a lack of buffers or memory, no client can be rejected, and all of them stay
        in the queue.
        """
        rejected = 0
        if error.errno in _NO_DESCRIPTOR:
            while rejected < MAX_ACCEPTS and self._reject(listening):
                rejected += 1
        if (suffix := self._throttle.next_suffix(self._loop.time())) is not None:
            logger.error(
                "failed to accept connections: %(error)s; %(count)d clients were rejected%(detail)s. If too many files"
                " are open, raise the limit (ulimit -n)",
                LogFields(error=error, count=rejected, detail=suffix),
            )
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(EXHAUSTED_PAUSE_S, self._listen, listening)

    def _reject(self, listening: socket.socket) -> bool:
        """Accept one waiting client and close its connection. Return whether this was possible.

        The process has no other descriptor left for the connection. The spare descriptor is therefore closed before the
        client is accepted, and opened again afterwards.
        """
        self._open_spare()
        if self._spare is None:
            return False
        self._close_spare()
        try:
            listening.accept()[0].close()
        except OSError:
            return False
        finally:
            self._open_spare()
        return True

    def _open_spare(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def _close_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def _disable_nagle(connection: socket.socket) -> None:
    """Disable Nagle's algorithm, which would delay the last bytes of a response by up to 40 ms.

    asyncio disables it only for sockets that were created with the protocol number of TCP. The listening sockets of
    `create_server` are created without this number.
    """
    with contextlib.suppress(OSError):  # the connection may have ended
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
