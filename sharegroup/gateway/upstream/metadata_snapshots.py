"""Undecoded metadata of all topics, for clients. All clients that use the same Metadata version share a snapshot of it.

The brokers therefore receive at most five requests per second and version, regardless of the number of clients. The
clients of a cluster usually use one to three versions. If the bytes of a new response are the same as before, the
previous object is kept, because it has already been split into topics.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sharegroup.gateway.upstream.all_metadata import read_response
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes

#: Maximum age of a snapshot that is sent to clients. For comparison: after a leader change, clients wait for 0.1 s
#: before they retry (`retry.backoff.ms`).
FRESH_S = 0.2


class _Snapshot(NamedTuple):
    """Undecoded metadata, and the time at which it was requested, in seconds of the event loop's clock."""

    metadata: MetadataBytes
    requested_s: float


class MetadataSnapshots:
    """Caches one snapshot of the metadata per version of the Metadata API. Must be used on one event loop.

    `ask(version)` requests the metadata of all topics. It uses this version of the API, or the newest one below it that
    the broker supports.
    """

    def __init__(self, ask: Callable[[int | None], Awaitable[MetadataBytes]]) -> None:
        self._fetch = ask
        self._newest: dict[int, _Snapshot] = {}
        self._fetching: dict[int, asyncio.Task[MetadataBytes]] = {}
        self._invalidated = float("-inf")

    def get_newest(self, version: int) -> MetadataBytes | None:
        """Return the last snapshot of this version, regardless of its age. Return None if there is none."""
        found = self._newest.get(version)
        return None if found is None else found.metadata

    def is_fresh(self, version: int) -> bool:
        """Return whether the last snapshot of this version is new enough to be sent to clients."""
        found = self._newest.get(version)
        now = asyncio.get_running_loop().time()
        return found is not None and found.requested_s > self._invalidated and now - found.requested_s < FRESH_S

    def invalidate(self) -> None:
        """Treat every snapshot requested until now as out of date, because topics are being changed.

        This includes the snapshots whose responses have not arrived yet.
        """
        self._invalidated = asyncio.get_running_loop().time()
        self._fetching.clear()

    async def get_fresh(self, version: int) -> MetadataBytes:
        """Return a snapshot of this version that is new enough to be sent to clients. Request it if necessary.

        Raises UpstreamUnavailableError if no broker responds.
        """
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
