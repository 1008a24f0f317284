"""Which names are share groups, for requests that would create a group of another kind at the brokers."""

from __future__ import annotations

import asyncio
import logging

from sharegroup.errors import RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups

logger = logging.getLogger(__name__)

#: How long the names are kept after they were read.
KEPT_S = 2.0
#: How long a request waits for the tables; then the names that were read last count.
PATIENCE_S = 2.0


class ShareGroupNames:
    """The names of all share groups, read from the tables when a request needs them and at most every KEPT_S.

    The names are a help and not a lock: while the tables cannot be read, the last known names count.
    """

    def __init__(self, stored: StoredGroups) -> None:
        self._stored = stored
        self._names: frozenset[str] = frozenset()
        self._until = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def has(self, group_id: str) -> bool:
        """Return whether there is a share group of this name."""
        if asyncio.get_running_loop().time() >= self._until:
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            _, late = await asyncio.wait([self._reading], timeout=PATIENCE_S)
            if late:
                self._keep()
        return group_id in self._names

    async def _read(self) -> None:
        try:
            self._names = frozenset(listing.group_id for listing in await self._stored.listings())
        except RequestError as error:
            logger.debug("the names of share groups cannot be read: %s", error.message)
        finally:
            self._keep()
            self._reading = None

    def _keep(self) -> None:
        """The names as they are now count for KEPT_S more."""
        self._until = asyncio.get_running_loop().time() + KEPT_S
