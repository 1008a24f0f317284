"""An incremental fetch session with one broker (KIP-227). No clock, no I/O.

The first request of a session names all partitions. Later requests name only partitions whose offset has changed. If a
thousand partitions have no new records, a request is therefore as small as for a single partition. A broker that has no
room for a session returns the session id 0. Each request then names all partitions.
"""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.gateway.records.batch_cache import CacheKey

NO_SESSION = 0


class FetchStep(NamedTuple):
    """The next request of a session.

    Attributes:
        session_id: the id of the session, or `NO_SESSION`.
        epoch: the epoch of the session.
        offsets: {partition: offset to fetch}, for partitions that are new or whose offset has changed.
        forgotten: partitions that the broker must remove from the session.
        all_offsets: {partition: offset to fetch}, for all partitions of the session. The response is for these offsets.
    """

    session_id: int
    epoch: int
    offsets: dict[CacheKey, int]
    forgotten: list[CacheKey]
    all_offsets: dict[CacheKey, int]


class FetchSession:
    """A fetch session with one broker: the partitions that are read, each with the offset that is read next."""

    def __init__(self) -> None:
        self._offsets: dict[CacheKey, int] = {}
        #: The partitions in the broker's session, each with the offset that was sent last.
        self._sent: dict[CacheKey, int] = {}
        self._session_id = NO_SESSION
        self._epoch = 0

    def __bool__(self) -> bool:
        """Return whether the session has partitions."""
        return bool(self._offsets)

    def offset(self, key: CacheKey) -> int | None:
        """Return the offset that is read next; None if the partition is not in the session."""
        return self._offsets.get(key)

    def partitions(self) -> list[CacheKey]:
        """Return the partitions that are read."""
        return list(self._offsets)

    def set_offset(self, key: CacheKey, offset: int) -> None:
        """Add a partition, or set the offset that is read next."""
        self._offsets[key] = offset

    def remove(self, key: CacheKey) -> None:
        """Stop reading a partition. The next request removes it from the broker's session."""
        self._offsets.pop(key, None)

    def next_step(self) -> FetchStep:
        """Return the next request, and record its offsets as sent.

        The caller must call `on_response` or `reset` before it calls this method again.
        """
        changed = {key: offset for key, offset in self._offsets.items() if self._sent.get(key) != offset}
        forgotten = [key for key in self._sent if key not in self._offsets]
        self._sent = dict(self._offsets)
        return FetchStep(self._session_id, self._epoch, changed, forgotten, self._sent)

    def on_response(self, session_id: int) -> None:
        """Advance the epoch after a response without an error.

        The session id 0 means that the broker has no session. The next request then names all partitions again.
        """
        if session_id == NO_SESSION:
            self.reset()
            return
        self._session_id, self._epoch = session_id, self._epoch + 1 if self._epoch < 2**31 - 1 else 1

    def reset(self) -> None:
        """Make the next request begin a new session, because the broker no longer has the current one."""
        self._session_id, self._epoch = NO_SESSION, 0
        self._sent = {}
