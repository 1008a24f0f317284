"""File descriptors, which limit how many connections the process can have.

A client needs up to two: its connection and its link to the broker. The gateway needs some for itself.
"""

import logging
import resource

from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Descriptors for ports, brokers, tables and logs.
OWN_DESCRIPTORS = 128
_OF_CLIENT = 2
#: The limit to set if there is no hard limit.
ENOUGH = 65_536


def raise_limit() -> int | None:
    """Raise the soft limit of open files to the hard limit; return the resulting limit, None if unlimited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning(
            "failed to raise the limit of open files; it stays %(limit)d: %(error)s", LogFields(limit=soft, error=error)
        )
        return soft
    return wanted


def limit_connections(limit: int | None, wanted: int) -> int:
    """Return how many of the `wanted` connections fit into `limit` open files (None: unlimited), at least one.

    Logs a warning if there are fewer.
    """
    if limit is None or limit >= wanted * _OF_CLIENT + OWN_DESCRIPTORS:
        return wanted
    possible = max(1, (limit - OWN_DESCRIPTORS) // _OF_CLIENT)
    logger.warning(
        "gateway.max.connections is %(configured)d and needs %(files)d open files, but the limit is %(limit)d"
        " (ulimit -Hn): serving up to %(count)d connections",
        LogFields(configured=wanted, files=wanted * _OF_CLIENT + OWN_DESCRIPTORS, limit=limit, count=possible),
    )
    return possible
