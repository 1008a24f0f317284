"""An incremental fetch session at one broker (KIP-227). No clock, no I/O.

The first request of a session names all partitions, later ones only those whose offset has changed. So a request for a
thousand partitions without records is as small as one for a single partition. A broker that has no room for a session
returns the session id 0. Then each request names all partitions.
"""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.gateway.records.batch_cache import CacheKey

NO_SESSION = 0


class FetchStep(NamedTuple):
    """The next request of a session: its id and epoch, the partitions with their offsets, and those to be removed."""

    session_id: int
    epoch: int
    offsets: dict[CacheKey, int]
    forgotten: list[CacheKey]


class FetchSession:
    """The partitions that are read from one broker, each with the offset that is read next."""

    def __init__(self) -> None:
        self._offsets: dict[CacheKey, int] = {}
        #: The partitions that the broker has in the session, with the offset that it was sent last.
        self._sent: dict[CacheKey, int] = {}
        self._session_id = NO_SESSION
        self._epoch = 0

    def __bool__(self) -> bool:
        """Return whether there are partitions."""
        return bool(self._offsets)

    def offset(self, key: CacheKey) -> int | None:
        """Return the offset that is read next, or None for another partition."""
        return self._offsets.get(key)

    def partitions(self) -> list[CacheKey]:
        """Return the partitions."""
        return list(self._offsets)

    def set_offset(self, key: CacheKey, offset: int) -> None:
        """Add a partition, or set the offset that is read next."""
        self._offsets[key] = offset

    def remove(self, key: CacheKey) -> None:
        """Remove a partition."""
        self._offsets.pop(key, None)

    def next_step(self) -> FetchStep:
        """Return the next request. Call `on_response` or `reset` before the next one."""
        changed = {key: offset for key, offset in self._offsets.items() if self._sent.get(key) != offset}
        forgotten = [key for key in self._sent if key not in self._offsets]
        self._sent = dict(self._offsets)
        return FetchStep(self._session_id, self._epoch, changed, forgotten)

    def on_response(self, session_id: int) -> None:
        """Continue after a response without an error."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._session_id, self._epoch = session_id, self._epoch + 1 if self._epoch < 2**31 - 1 else 1

    def reset(self) -> None:
        """Begin a new session with the next request, because the broker no longer has this one."""
        self._session_id, self._epoch = NO_SESSION, 0
        self._sent.clear()
