"""Chooses free ports for servers that cannot choose a port themselves, such as Kafka's brokers.

A chosen port belongs to the process that chose it until this process ends. No other process of the same user gets it
from this module, even while no server listens on it: before the first start of a server, and during a restart.
"""

import fcntl
import functools
import os
import secrets
import socket
import tempfile
import threading
from pathlib import Path

HOST = "127.0.0.1"  # not localhost, for which clients would try ::1 first, where the servers do not listen
#: The ports to choose from. Linux and macOS assign ports above these to outgoing connections, so no such connection
#: has the port of a stopped server when this server starts again.
_PORTS = range(10_000, 30_000)

#: The index in `_PORTS` at which this process looks first. It differs by process, so few attempts are needed. Within a
#: process it is the same for each choice, so the chosen ports leave no small gaps.
_START = secrets.randbelow(len(_PORTS))
_LOCK_PATH = Path(tempfile.gettempdir()) / f"sharegroup-ports-{os.getuid()}.lock"

_mutex = threading.Lock()
_chosen: set[int] = set()


def free_port() -> int:
    """Return a port that is free. It belongs to this process. Raises OSError if no port is free."""
    return free_ports(1)[0]


def free_ports(count: int) -> range:
    """Return this number of consecutive ports that are free. They belong to this process.

    Raises OSError if there are not enough free ports.
    """
    firsts = _PORTS[: len(_PORTS) - count + 1]
    with _mutex:
        for place in range(len(firsts)):
            first = firsts[(_START + place) % len(firsts)]
            ports = range(first, first + count)
            if _chosen.isdisjoint(ports) and _lock(ports):
                if all(map(is_free, ports)):
                    _chosen.update(ports)
                    return ports
                fcntl.lockf(_lock_file(), fcntl.LOCK_UN, count, first)
    of = f"from {_PORTS.start} to {_PORTS.stop - 1}"
    raise OSError(f"not enough free ports {of}: {count} consecutive ones are needed")


def _lock(ports: range) -> bool:
    """Lock the byte at the offset of each port in the lock file, and return whether no other process has a lock.

    The system removes the locks when this process ends.
    """
    descriptor = _lock_file()
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
    except (BlockingIOError, PermissionError):
        return False
    return True


@functools.cache
def _lock_file() -> int:
    """Return the descriptor of the lock file. It stays open: if a process closes the file, it loses its locks."""
    return os.open(_LOCK_PATH, os.O_RDWR | os.O_CREAT, 0o600)


def is_free(port: int) -> bool:
    """Return whether no server listens on a port of this machine, whoever the port belongs to."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
