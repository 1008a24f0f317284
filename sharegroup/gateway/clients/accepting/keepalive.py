"""TCP finds out that a client's machine has vanished: without power, or its network gone.

Nothing comes from such a client, not even the end of its connection. Left alone, TCP would keep the connection, and
with it the share session, for hours while nothing is sent, and for a quarter of an hour while something is.
"""

from __future__ import annotations

import contextlib
import socket

#: Probes without an answer before the connection ends, in the last two thirds of the time.
PROBES = 3
#: macOS has this name for TCP_KEEPIDLE.
_IDLE = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")


def end_when_vanished(connection: socket.socket, after_ms: int) -> None:
    """Have TCP end the connection once its other side has answered nothing for `after_ms`; 0: not at all.

    A platform without one of the options does without it. TCP's own unit is a second.
    """
    if after_ms == 0:
        return
    idle_s = max(1, after_ms // 3_000)
    options = {
        next((name for name in _IDLE if hasattr(socket, name)), ""): idle_s,
        "TCP_KEEPINTVL": max(1, (after_ms // 1_000 - idle_s) // PROBES),
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": after_ms,  # while a response is on its way there are no probes
    }
    with contextlib.suppress(OSError):  # it may have ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
