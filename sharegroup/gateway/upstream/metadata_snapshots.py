"""Metadata of all topics as bytes, one snapshot for all clients that ask in the same version.

However many clients ask, brokers are asked five times a second at most for each version in use (clients have one to
three of them), and a snapshot whose bytes are those of the last one is the last one, cut already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sharegroup.gateway.upstream.large_answers import read
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes

#: A client that asks anew since it met another leader waits for 0.1 s before (Kafka's `retry.backoff.ms`).
FRESH_S = 0.2


class _Snapshot(NamedTuple):
    """As of when the brokers were asked, by the loop's clock."""

    metadata: MetadataBytes
    asked: float


class MetadataSnapshots:
    """`ask` gets the metadata of all topics, in that version or the newest that brokers have. On one event loop."""

    def __init__(self, ask: Callable[[int | None], Awaitable[MetadataBytes]]) -> None:
        self._ask = ask
        self._newest: dict[int, _Snapshot] = {}
        self._asking: dict[int, asyncio.Task[MetadataBytes]] = {}
        self._forgotten = float("-inf")

    def newest(self, version: int) -> MetadataBytes | None:
        """The last one, however old it is; None without one."""
        found = self._newest.get(version)
        return None if found is None else found.metadata

    def is_fresh(self, version: int) -> bool:
        """Whether the last one is so new that it may be shown."""
        found = self._newest.get(version)
        now = asyncio.get_running_loop().time()
        return found is not None and found.asked > self._forgotten and now - found.asked < FRESH_S

    def forget(self) -> None:
        """Topics are being changed: nothing is shown that was asked for before now."""
        self._forgotten = asyncio.get_running_loop().time()
        self._asking.clear()

    async def fresh(self, version: int) -> MetadataBytes:
        """One that may be shown. Raises UpstreamUnavailableError."""
        if self.is_fresh(version):
            return self._newest[version].metadata
        task = self._asking.get(version)
        if task is None:
            task = self._asking[version] = asyncio.ensure_future(self._look(version))
            task.add_done_callback(lambda done: self._looked(version, done))
        return await asyncio.shield(task)  # one who gives up waiting does not end it for the others

    async def _look(self, version: int) -> MetadataBytes:
        asked = asyncio.get_running_loop().time()
        metadata = await self._ask(version)
        known = self.newest(version)
        if known is not None and known == metadata:
            metadata = known
        else:
            await read(len(metadata.body), metadata.cut)
        self._newest[version] = _Snapshot(metadata, asked)
        return metadata

    def _looked(self, version: int, task: asyncio.Task[MetadataBytes]) -> None:
        if self._asking.get(version) is task:
            del self._asking[version]
        if not task.cancelled():
            task.exception()  # whoever waited has it as well; they may all be gone
