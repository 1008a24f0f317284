"""Reads record batches from the upstream brokers, undecoded, for all members at once.

What was read is kept for a while (`BatchCache`): members of a share-partition get parts of the same batches. One read
of a part of a log is on its way at a time, and whoever needs that part waits for it. A partition with another leader
epoch is read anew, for its log may have been truncated. Topics are read by their ids, so that one that was made again
under the name is not taken for the old one; by their names where the broker cannot do that, or has no ids.

What a broker does not show is not known: an answer without records below the log's end may mean that compaction took
them all, or that reading remote storage took too long. Such a part is read again, after a pause that grows. It is a
hole as soon as a batch behind it is seen.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from kafka import TopicPartition
from kafka.protocol.api_data import ApiData
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsResponse

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.gateway.records.batch_cache import BatchCache, CacheKey, Chunk
from sharegroup.gateway.records.record_batches import read_batches
from sharegroup.gateway.upstream.cluster import Leader, Topic, UpstreamCluster
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.list_offsets import EARLIEST, list_offsets_request, listed_offsets

_Fetched = FetchResponse.FetchableTopicResponse.PartitionData

READ_BYTES = 4 * 1_048_576
#: Fetch names topics by id from the second of these versions on, which a made id must not be.
NAMES_FETCH_VERSION, IDS_FETCH_VERSION = 12, 13
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
#: How long a leader may take, in seconds: 4 MiB must come through a slow network within it.
READ_TIMEOUT_S = 10.0
#: After a read that gave nothing, before the same is tried again; it doubles.
FIRST_PAUSE_S, MAX_PAUSE_S = 0.25, 5.0
#: What is left of a pause counts from here; less is a remainder of the arithmetic, which no timer can wait for.
CLOCK_RESOLUTION_S = 0.001
#: Reads that are remembered for having given nothing.
MAX_PAUSED = 10_000


class LogReadError(ShareGroupError):
    """The broker does not give this part of the log: `code` is its error, `log_start_offset` where the log begins."""

    def __init__(self, code: int, log_start_offset: int) -> None:
        self.code, self.log_start_offset = code, log_start_offset
        problem = f"answers a fetch with error {code}" if code else "has nothing to show of this part of the log"
        super().__init__(f"the upstream broker {problem}")


class LogPosition(NamedTuple):
    """Where to read: the partition of a topic, all of it or committed records only."""

    topic: Topic
    partition: int
    read_committed: bool

    @property
    def key(self) -> CacheKey:
        """The key of its batches in the cache: the same partition, read in the same way."""
        return CacheKey(self.topic.topic_id, self.partition, self.read_committed)


class _Pause(NamedTuple):
    """No read before `until` (the loop's clock, seconds); `length_s` is how long this pause is."""

    until: float
    length_s: float


class LogReader:
    """Reads what is not in the cache yet; who wants the same part waits for the same read. `read` raises LogReadError
    and UpstreamUnavailableError."""

    def __init__(self, cluster: UpstreamCluster, cache: BatchCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._reading: dict[tuple[CacheKey, int], asyncio.Task[Chunk]] = {}
        self._paused: OrderedDict[tuple[CacheKey, int], _Pause] = OrderedDict()
        cluster.watch(self._forget)

    def cached(self, position: LogPosition, offset: int, max_bytes: int) -> Sequence[Chunk]:
        """The chunks that cover the log from `offset` on without a hole, to `max_bytes`; empty if it was not read."""
        return self._cache.lookup(position.key, offset, max_bytes)

    def pause_s(self, position: LogPosition, offset: int) -> float:
        """How long the part of the log that begins at `offset` is not to be read: the last read gave nothing."""
        pause = self._paused.get((position.key, offset))
        left_s = 0.0 if pause is None else pause.until - asyncio.get_running_loop().time()
        return left_s if left_s >= CLOCK_RESOLUTION_S else 0.0

    async def read(self, position: LogPosition, offset: int) -> None:
        """Have the part of the log that begins at `offset` in the cache."""
        await asyncio.shield(self._task(position, offset))

    def read_soon(self, position: LogPosition, offset: int) -> None:
        """Begin to read what is not here yet; a failure shows when someone waits for it."""
        if not self._cache.lookup(position.key, offset, 1) and not self.pause_s(position, offset):
            self._task(position, offset)

    def _task(self, position: LogPosition, offset: int) -> asyncio.Task[Chunk]:
        key = (position.key, offset)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.ensure_future(self._read(position, offset))
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: tuple[CacheKey, int], task: asyncio.Task[Chunk]) -> None:
        """A read has ended: the next one of the same part waits, if this one gave nothing."""
        del self._reading[key]
        last = self._paused.pop(key, None)
        if task.cancelled() or not isinstance(task.exception(), (LogReadError, UpstreamUnavailableError)):
            return
        length_s = FIRST_PAUSE_S if last is None else min(2 * last.length_s, MAX_PAUSE_S)
        self._paused[key] = _Pause(task.get_loop().time() + length_s, length_s)
        if len(self._paused) > MAX_PAUSED:
            self._paused.popitem(last=False)

    def _forget(self, topic_id: UUID, partition: int) -> None:
        for read_committed in (False, True):
            self._cache.forget(CacheKey(topic_id, partition, read_committed))
        for key in [key for key in self._paused if key[0][:2] == (topic_id, partition)]:
            del self._paused[key]

    async def _read(self, position: LogPosition, offset: int) -> Chunk:
        leader = self._leader(position)
        found = await self._fetch(position, leader, offset)
        if self._cache.last_offset(position.key) >= found.high_watermark:
            self._forget(position.topic.topic_id, position.partition)  # the log is not the one that was read
        chunk = chunk_of(found, offset, position.read_committed)
        if chunk is None:
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

    async def _fetch(self, position: LogPosition, leader: Leader, offset: int) -> _Fetched:
        """The broker's answer about the partition."""
        request = _fetch_request(position, offset)
        newest = NAMES_FETCH_VERSION if position.topic.has_made_id else IDS_FETCH_VERSION
        answer = await self._answer(position, leader, request, newest)
        if answer.error_code:
            raise LogReadError(answer.error_code, -1)
        if not answer.responses:  # so a broker answers that throttles us
            raise LogReadError(int(ErrorCode.NONE), -1)
        found = answer.responses[0].partitions[0]
        if not found.error_code:
            return found
        log_start_offset = found.log_start_offset
        if found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._cluster.try_refresh()  # it does not lead the partition, or does not know it
        elif log_start_offset < 0:
            log_start_offset = await self._log_start_offset(position, leader)
        raise LogReadError(found.error_code, log_start_offset)

    async def _answer(self, position: LogPosition, leader: Leader, request: FetchRequest, newest: int) -> FetchResponse:
        asked = self._cluster.ask(leader.node_id, request, FetchResponse, newest, READ_TIMEOUT_S)
        return await self._cluster.while_it_leads(partial(self._leader, position), asked)

    async def _log_start_offset(self, position: LogPosition, leader: Leader) -> int:
        """Where the log begins: Kafka's brokers do not say so with OFFSET_OUT_OF_RANGE. -1 if it cannot be told."""
        partition = TopicPartition(position.topic.name, position.partition)
        request = list_offsets_request({partition: EARLIEST})
        answer = await self._cluster.ask(leader.node_id, request, ListOffsetsResponse, timeout_s=READ_TIMEOUT_S)
        return listed_offsets(answer).get(partition, -1)


def chunk_of(found: _Fetched, offset: int, read_committed: bool) -> Chunk | None:
    """What one partition of a Fetch response shows of the log from `offset` on; None when it shows nothing."""
    aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions or ()]
    records = found.records or b""
    assert not isinstance(records, ApiData)  # kafka-python's, in the records of its own topics of metadata
    batches = read_batches(records, offset, aborted if read_committed else ())
    return Chunk(offset, batches[-1].last_offset, tuple(batches), len(records)) if batches else None


def _fetch_request(position: LogPosition, offset: int) -> FetchRequest:
    request = FetchRequest
    topic = request.FetchTopic
    wanted = topic.FetchPartition(
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
        topics=[topic(topic=position.topic.name, topic_id=position.topic.topic_id, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )
