"""Reads record batches from the upstream brokers, undecoded, for all members at once.

What was read is kept for a while (`BatchCache`): members of a share-partition get parts of the same batches. One read
of a topic partition is on its way at a time, and whoever needs that part of the log waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from kafka.protocol.consumer import FetchRequest, FetchResponse

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.gateway.batch_cache import BatchCache, CacheKey, Chunk
from sharegroup.gateway.record_batches import read_batches
from sharegroup.gateway.topic_ids import NO_TOPIC_ID
from sharegroup.gateway.upstream_cluster import Topic, UpstreamCluster

logger = logging.getLogger(__name__)

READ_BYTES = 4 * 1_048_576
#: Fetch names topics by id from this version on, which a made id must not be.
MAX_FETCH_VERSION = 12
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class LogReadError(ShareGroupError):
    """The broker does not give this part of the log: `code` is its error, `log_start_offset` where the log begins."""

    def __init__(self, code: int, log_start_offset: int) -> None:
        self.code, self.log_start_offset = code, log_start_offset
        super().__init__(f"the upstream broker answers a fetch with error {code}")


class LogPosition(NamedTuple):
    """Where to read: the partition of a topic, as a group with this isolation level sees it."""

    topic: Topic
    partition: int
    read_committed: bool

    @property
    def key(self) -> CacheKey:
        """The cache's key."""
        return CacheKey(self.topic.topic_id, self.partition, self.read_committed)


class LogReader:
    """See the module. `read` raises LogReadError and UpstreamUnavailableError."""

    def __init__(self, cluster: UpstreamCluster, cache: BatchCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._reading: dict[tuple[CacheKey, int], asyncio.Task[Chunk]] = {}

    def cached(self, position: LogPosition, offset: int, max_bytes: int) -> Sequence[Chunk]:
        """The chunks that cover the log from `offset` on without a hole, to `max_bytes`; empty if it was not read."""
        return self._cache.lookup(position.key, offset, max_bytes)

    async def read(self, position: LogPosition, offset: int) -> None:
        """Have the part of the log that begins at `offset` in the cache."""
        await asyncio.shield(self._task(position, offset))

    def read_soon(self, position: LogPosition, offset: int) -> None:
        """Begin to read; a failure shows when someone waits for it."""
        self._task(position, offset).add_done_callback(_retrieve)

    def _task(self, position: LogPosition, offset: int) -> asyncio.Task[Chunk]:
        key = (position.key, offset)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.ensure_future(self._read(position, offset))
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        return task

    async def _read(self, position: LogPosition, offset: int) -> Chunk:
        topic = position.topic
        answer = await self._cluster.ask(
            topic.leaders[position.partition].node_id,
            _fetch_request(position, offset),
            FetchResponse,
            MAX_FETCH_VERSION,
        )
        if answer.error_code:
            raise LogReadError(answer.error_code, -1)
        found = answer.responses[0].partitions[0]
        if found.error_code:
            raise LogReadError(found.error_code, getattr(found, "log_start_offset", -1))
        aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions or ()]
        batches = read_batches(found.records or b"", offset, aborted if position.read_committed else ())
        if not batches:
            raise LogReadError(int(ErrorCode.NONE), getattr(found, "log_start_offset", -1))
        chunk = Chunk(offset, batches[-1].last_offset, tuple(batches), len(found.records))
        self._cache.insert(position.key, chunk)
        return chunk


def _fetch_request(position: LogPosition, offset: int) -> FetchRequest:
    request = FetchRequest
    wanted = request.FetchTopic.FetchPartition(
        partition=position.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=READ_BYTES,
    )
    return request(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=READ_BYTES,
        isolation_level=READ_COMMITTED if position.read_committed else READ_UNCOMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[request.FetchTopic(topic=position.topic.name, topic_id=NO_TOPIC_ID, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )


def _retrieve(task: asyncio.Task[Chunk]) -> None:
    if not task.cancelled():
        task.exception()
