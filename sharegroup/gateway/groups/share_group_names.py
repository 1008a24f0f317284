"""The names of all share groups. Requests that would create a group of another type under such a name are rejected."""

import asyncio
import logging

from sharegroup.errors import RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: How long the names that were read last are used before they are read again.
KEPT_S = 2.0
#: How long a request waits for the tables. After that, the names read last are used.
READ_TIMEOUT_S = 2.0


class ShareGroupNames:
    """The names of all share groups. `has` reads them from the tables, at most once per `KEPT_S` seconds.

    `has` is best effort: it may miss a group that was created since the last read. While the tables cannot be read,
    `has` uses the names that were read last.
    """

    def __init__(self, stored: StoredGroups) -> None:
        self._stored = stored
        self._names: frozenset[str] = frozenset()
        self._until = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def has(self, group_id: str) -> bool:
        if asyncio.get_running_loop().time() >= self._until:
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            _, late = await asyncio.wait([self._reading], timeout=READ_TIMEOUT_S)
            if late:
                self._extend()
        return group_id in self._names

    async def _read(self) -> None:
        try:
            self._names = frozenset(listing.group_id for listing in await self._stored.listings())
        except RequestError as error:
            logger.debug("failed to read the names of share groups: %(error)s", LogFields(error=error.message))
        finally:
            self._extend()
            self._reading = None

    def _extend(self) -> None:
        """Use the current names for another `KEPT_S` seconds."""
        self._until = asyncio.get_running_loop().time() + KEPT_S
