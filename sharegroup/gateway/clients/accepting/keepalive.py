"""TCP keepalive, which detects clients whose machine or network has failed.

Such a client does not close its connection. Without keepalive, the connection and its share session would exist for
about 15 minutes after the gateway sends something. If the gateway sends nothing, they would exist for hours.
"""

import contextlib
import socket

#: Number of unanswered probes after which TCP ends the connection. The first probe is sent after one third of the time
#: that is passed to `set_keepalive`. The others follow in the rest of this time.
PROBES = 3
#: The socket option for the time before the first probe: its name on Linux, and its name on macOS.
_IDLE = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")


def set_keepalive(connection: socket.socket, after_ms: int) -> None:
    """Configure TCP to end the connection if the client does not respond for `after_ms`.

    If `after_ms` is 0, the connection is not changed. Options that the platform does not support are skipped. The times
    of TCP's probes are rounded down to seconds, and are at least 1 s.
    """
    if after_ms == 0:
        return
    idle_s = max(1, after_ms // 3_000)
    options = {
        next((name for name in _IDLE if hasattr(socket, name)), ""): idle_s,
        "TCP_KEEPINTVL": max(1, (after_ms // 1_000 - idle_s) // PROBES),
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": after_ms,  # there are no probes while sent bytes are unacknowledged
    }
    with contextlib.suppress(OSError):  # the connection may have ended
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
