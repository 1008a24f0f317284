"""File descriptors: how many connections the process can have, whatever its configuration says.

A client takes two, its connection and, if it has one, its link to the broker; the gateway has some of its own.
"""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

#: Ports, brokers, tables, logs.
OWN_DESCRIPTORS = 128
_OF_CLIENT = 2
#: What is asked for where there is no hard limit.
ENOUGH = 65_536


def raise_limit() -> int | None:
    """Raise the process's limit as far as it may itself, which is the hard one; the limit now, None without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of open files stays %d: %s", soft, error)
        return soft
    return wanted


def connections_within(limit: int | None, wanted: int) -> int:
    """How many of the wanted connections there are descriptors for; fewer have a line in the log.

    `limit` is that of open files, None: none. At least one connection is tried.
    """
    if limit is None or limit >= wanted * _OF_CLIENT + OWN_DESCRIPTORS:
        return wanted
    possible = max(1, (limit - OWN_DESCRIPTORS) // _OF_CLIENT)
    logger.warning(
        "gateway.max.connections is %d, for which %d open files are needed, and the limit is %d (ulimit -Hn):"
        " %d connections are served",
        wanted,
        wanted * _OF_CLIENT + OWN_DESCRIPTORS,
        limit,
        possible,
    )
    return possible
