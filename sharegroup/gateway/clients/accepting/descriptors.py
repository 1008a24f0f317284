"""The limit of open files of the process, which also limits the number of its connections.

Each client needs up to two file descriptors: one for its connection, and one for its own connection to a broker. The
gateway itself needs some descriptors too.
"""

import logging
import resource

from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Descriptors that the gateway needs for ports, connections to brokers, tables and logs.
OWN_DESCRIPTORS = 128
_OF_CLIENT = 2
#: The soft limit that is set if there is no hard limit.
ENOUGH = 65_536


def raise_limit() -> int | None:
    """Raise the soft limit of open files to the hard limit, or to `ENOUGH` if there is no hard limit.

    Return the resulting soft limit, or None if it is unlimited. If the limit cannot be raised, a warning is logged.
    """
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
    """Return how many client connections are possible with `limit` open files: at most `wanted`, at least one.

    A `limit` of None means unlimited. Logs a warning if the result is below `wanted`.
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
