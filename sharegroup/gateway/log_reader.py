"""Reads record batches from the upstream brokers, undecoded, for all members at once.

What was read is kept for a while (`BatchCache`): members of a share-partition get parts of the same batches. One read
of a part of a log is on its way at a time, and whoever needs that part waits for it. A partition with another leader
epoch is read anew, for its log may have been truncated.

Where the log ends with a hole (compaction took all of its last records), the broker has nothing to send: an empty
answer about offsets below the end means that no record is there. But a broker with tiered storage gives the same answer
when reading the remote part is throttled, so only offsets of its local log are believed to be empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.gateway.batch_cache import BatchCache, CacheKey, Chunk
from sharegroup.gateway.record_batches import read_batches
from sharegroup.gateway.topic_ids import NO_TOPIC_ID
from sharegroup.gateway.upstream_cluster import Leader, Topic, UpstreamCluster

READ_BYTES = 4 * 1_048_576
#: Fetch names topics by id from this version on, which a made id must not be.
MAX_FETCH_VERSION = 12
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
#: Timestamp of ListOffsets that asks where the local log begins (KIP-405), and its first version. Brokers that do not
#: have it have no tiered storage either.
EARLIEST_LOCAL = -4
EARLIEST_LOCAL_VERSION = 8


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
        cluster.watch(self._forget)

    def cached(self, position: LogPosition, offset: int, max_bytes: int) -> Sequence[Chunk]:
        """The chunks that cover the log from `offset` on without a hole, to `max_bytes`; empty if it was not read."""
        return self._cache.lookup(position.key, offset, max_bytes)

    async def read(self, position: LogPosition, offset: int) -> None:
        """Have the part of the log that begins at `offset` in the cache."""
        await asyncio.shield(self._task(position, offset))

    def read_soon(self, position: LogPosition, offset: int) -> None:
        """Begin to read what is not here yet; a failure shows when someone waits for it."""
        if not self._cache.lookup(position.key, offset, 1):
            self._task(position, offset).add_done_callback(_retrieve)

    def _task(self, position: LogPosition, offset: int) -> asyncio.Task[Chunk]:
        key = (position.key, offset)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.ensure_future(self._read(position, offset))
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        return task

    def _forget(self, topic_id: UUID, partition: int) -> None:
        for read_committed in (False, True):
            self._cache.forget(CacheKey(topic_id, partition, read_committed))

    async def _read(self, position: LogPosition, offset: int) -> Chunk:
        leader = self._leader(position)
        found = await self._fetch(position, leader, offset)
        chunk = chunk_of(found, offset, position.read_committed)
        if chunk is None or (not chunk.batches and not await self._is_local(position, leader, offset)):
            raise LogReadError(int(ErrorCode.NONE), found.log_start_offset)
        if self._leader(position) == leader:  # else it was told to forget what it read, while this was on its way
            self._cache.insert(position.key, chunk)
        return chunk

    def _leader(self, position: LogPosition) -> Leader:
        """Who leads now, whatever was known when the position was made."""
        leader = self._cluster.leader(position.topic.topic_id, position.partition)
        if leader is None:
            raise LogReadError(int(ErrorCode.UNKNOWN_TOPIC_ID), -1)
        return leader

    async def _fetch(self, position: LogPosition, leader: Leader, offset: int) -> Any:
        """The broker's answer about the partition."""
        request = _fetch_request(position, offset)
        answer = await self._cluster.ask(leader.node_id, request, FetchResponse, MAX_FETCH_VERSION)
        if answer.error_code:
            raise LogReadError(answer.error_code, -1)
        if not answer.responses:  # so a broker answers that throttles us
            raise LogReadError(int(ErrorCode.NONE), -1)
        found = answer.responses[0].partitions[0]
        if found.error_code:
            if found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._cluster.try_refresh()  # it does not lead the partition, or does not know it
            raise LogReadError(found.error_code, found.log_start_offset)
        return found

    async def _is_local(self, position: LogPosition, leader: Leader, offset: int) -> bool:
        """Whether the offset is of the broker's own log, none of which is in remote storage alone."""
        _, version = (await self._cluster.features(leader.node_id)).ranges[ListOffsetsRequest.API_KEY]
        if version < EARLIEST_LOCAL_VERSION:
            return True
        topic = ListOffsetsRequest.ListOffsetsTopic
        wanted = topic.ListOffsetsPartition(
            partition_index=position.partition, current_leader_epoch=-1, timestamp=EARLIEST_LOCAL
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_UNCOMMITTED,
            topics=[topic(name=position.topic.name, partitions=[wanted])],
            timeout_ms=0,
        )
        answer = await self._cluster.ask(leader.node_id, request, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        return not found.error_code and 0 <= found.offset <= offset


def chunk_of(found: Any, offset: int, read_committed: bool) -> Chunk | None:
    """What one partition of a Fetch response shows of the log from `offset` on; None when it shows nothing."""
    aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions or ()]
    records = found.records or b""
    batches = read_batches(records, offset, aborted if read_committed else ())
    if batches:
        return Chunk(offset, batches[-1].last_offset, tuple(batches), len(records))
    end = found.last_stable_offset if read_committed else found.high_watermark
    return Chunk(offset, end - 1, (), 0) if not records and end > offset else None


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
