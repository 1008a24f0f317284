"""A listening port: takes in clients a few at a time, also while there are no file descriptors left.

asyncio's own server accepts a thousand in one go, during which nobody is served, and with no descriptor left it leaves
those that come in the queue, where they wait until they give up. Here such a client is refused, by a descriptor that is
kept for it: it learns at once that it has to look elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial

from sharegroup.gateway.clients.accepting.seldom import Seldom

logger = logging.getLogger(__name__)

#: Clients that are taken in, or refused, before the others are served again.
ACCEPTED_AT_ONCE = 16
#: After clients were refused for want of descriptors.
EXHAUSTED_PAUSE_S = 0.1
#: No more descriptors of this process, or of the machine: the kept one helps.
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
#: The machine is short of something else: to wait helps.
_EXHAUSTED = _NO_DESCRIPTOR | {errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """`connect` makes the protocol of each client. On one event loop, from when it is made until `close`."""

    def __init__(self, connect: Callable[[], asyncio.BaseProtocol], sockets: list[socket.socket]) -> None:
        self._connect, self.sockets = connect, sockets
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._exhausted = Seldom()
        self._spare: int | None = None
        self._keep_spare()
        for listening in sockets:
            self._listen(listening)

    @classmethod
    async def listen(cls, connect: Callable[[], asyncio.BaseProtocol], host: str, port: int, backlog: int) -> Acceptor:
        """Listen on all addresses that `host` has; port 0: any free one. Raises OSError."""
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
        """Take no more clients; those that are connected stay. Once more is nothing."""
        while self.sockets:
            listening = self.sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()
        for pause in self._pauses.values():
            pause.cancel()
        for task in self._beginning:
            task.cancel()
        self._drop_spare()

    def _listen(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._take_in, listening)

    def _take_in(self, listening: socket.socket) -> None:
        """Clients wait at the port."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    logger.warning("a client cannot be taken in: %s", error)
                    return
                self._refuse_some(listening, error)
                return
            accepted.setblocking(False)
            _send_at_once(accepted)
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(self._loop.connect_accepted_socket(self._connect, accepted))
        self._beginning.add(task)
        task.add_done_callback(partial(self._begun, accepted))

    def _begun(self, accepted: socket.socket, task: asyncio.Task[object]) -> None:
        self._beginning.discard(task)
        if task.cancelled():
            accepted.close()
        elif (error := task.exception()) is not None:
            accepted.close()
            logger.warning("a client cannot be taken in: %s", error)

    # -- without descriptors ---------------------------------------------------------------------------------------

    def _refuse_some(self, listening: socket.socket, error: OSError) -> None:
        """Refuse some of those that wait, and pause: what is served needs the time."""
        refused = 0
        if error.errno in _NO_DESCRIPTOR:
            while refused < ACCEPTED_AT_ONCE and self._refuse(listening):
                refused += 1
        if (more := self._exhausted.due(self._loop.time())) is not None:
            logger.error(
                "clients cannot be taken in: %s; %d are refused%s. The limit is `ulimit -n`", error, refused, more
            )
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(EXHAUSTED_PAUSE_S, self._listen, listening)

    def _refuse(self, listening: socket.socket) -> bool:
        """End one that waits, with the descriptor that is kept for it; False when none waits, or there is none."""
        self._keep_spare()
        if self._spare is None:
            return False
        self._drop_spare()
        try:
            listening.accept()[0].close()
        except OSError:
            return False
        finally:
            self._keep_spare()
        return True

    def _keep_spare(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def _drop_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def _send_at_once(connection: socket.socket) -> None:
    """The end of an answer does not wait until the client has confirmed what came before, which may take it 40 ms.

    asyncio sees to that only for sockets that were made with TCP's number, and those of `create_server` are not.
    """
    with contextlib.suppress(OSError):  # it may have ended already
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
