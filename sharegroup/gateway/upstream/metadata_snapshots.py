"""Metadata of all topics as bytes: one snapshot for all clients that request the same version.

However many clients send requests, brokers get at most five requests a second for each version in use (clients use one
to three). If the bytes have not changed, the previous snapshot is used again, which is already cut into topics.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sharegroup.gateway.upstream.all_metadata import read_response
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes

#: How long a snapshot may be sent. A client that retries after a leader change waits 0.1 s (`retry.backoff.ms`).
FRESH_S = 0.2


class _Snapshot(NamedTuple):
    """The metadata, and when it was requested, by the loop's clock."""

    metadata: MetadataBytes
    requested_s: float


class MetadataSnapshots:
    """Caches metadata per version. For one event loop.

    `ask` fetches the metadata of all topics, in that version or the newest that brokers support.
    """

    def __init__(self, ask: Callable[[int | None], Awaitable[MetadataBytes]]) -> None:
        self._fetch = ask
        self._newest: dict[int, _Snapshot] = {}
        self._fetching: dict[int, asyncio.Task[MetadataBytes]] = {}
        self._invalidated = float("-inf")

    def get_newest(self, version: int) -> MetadataBytes | None:
        """Return the last snapshot, however old it is, or None."""
        found = self._newest.get(version)
        return None if found is None else found.metadata

    def is_fresh(self, version: int) -> bool:
        """Return whether the last snapshot may still be sent."""
        found = self._newest.get(version)
        now = asyncio.get_running_loop().time()
        return found is not None and found.requested_s > self._invalidated and now - found.requested_s < FRESH_S

    def invalidate(self) -> None:
        """Invalidate all snapshots requested before now, because topics are being changed."""
        self._invalidated = asyncio.get_running_loop().time()
        self._fetching.clear()

    async def get_fresh(self, version: int) -> MetadataBytes:
        """Return a snapshot that may be sent. Raises UpstreamUnavailableError."""
        if self.is_fresh(version):
            return self._newest[version].metadata
        task = self._fetching.get(version)
        if task is None:
            task = self._fetching[version] = asyncio.ensure_future(self._update(version))
            task.add_done_callback(lambda done: self._on_updated(version, done))
        return await asyncio.shield(task)  # a cancelled caller does not cancel it for the others

    async def _update(self, version: int) -> MetadataBytes:
        requested_s = asyncio.get_running_loop().time()
        metadata = await self._fetch(version)
        known = self.get_newest(version)
        if known is not None and known == metadata:
            metadata = known
        else:
            await read_response(len(metadata.body), metadata.parse)
        self._newest[version] = _Snapshot(metadata, requested_s)
        return metadata

    def _on_updated(self, version: int, task: asyncio.Task[MetadataBytes]) -> None:
        if self._fetching.get(version) is task:
            del self._fetching[version]
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the callers have it too, or are gone
