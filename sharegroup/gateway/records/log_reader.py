"""Reads record batches from the upstream brokers, undecoded, for all members.

The batches are cached (`BatchCache`), because members of a share-partition receive parts of the same batches. At most
one read of a part of a log is in flight. All callers that need the part wait for this read.

If a partition has a new leader epoch, its cached batches are discarded, because its log may have been truncated. Topics
are read by id, so that a topic that was created again under the same name is not confused with the old one. If the
broker does not support ids, topics are read by name.

A response may have no records although the end of the log is not reached. Then either compaction has removed the
records, or reading remote storage took too long. The gateway reads this part of the log again after an increasing
pause. It regards the records as removed only when the broker returns a later batch.
"""

import asyncio
import logging
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
from sharegroup.kafka_clients.connections.list_offsets import EARLIEST, list_offsets_request, read_offsets
from sharegroup.kafka_clients.outage_log import OutageLogs
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

_Fetched = FetchResponse.FetchableTopicResponse.PartitionData

READ_BYTES = 4 * 1_048_576
#: The last version of Fetch that identifies topics by name, and the first one that uses ids. Topic ids that the gateway
#: computed itself must not be sent to brokers.
NAMES_FETCH_VERSION, IDS_FETCH_VERSION = 12, 13
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
#: Timeout of a read in seconds. It must be sufficient for `READ_BYTES` over a slow network.
READ_TIMEOUT_S = 10.0
#: First and longest pause before a read without a result is retried. The pause doubles each time.
FIRST_PAUSE_S, MAX_PAUSE_S = 0.25, 5.0
#: A remaining pause below this time counts as over, because it is a rounding error of timers.
CLOCK_RESOLUTION_S = 0.001
#: Most pauses that are kept in memory.
MAX_PAUSED = 10_000


class LogReadError(ShareGroupError):
    """A part of the log cannot be read.

    `code` is the broker's error code; 0 if the response had no error and no records. If the gateway knows no leader, it
    sends no request, and `code` is UNKNOWN_TOPIC_ID. `log_start_offset` is the first offset of the log; -1 if unknown.
    """

    def __init__(self, code: int, log_start_offset: int) -> None:
        self.code, self.log_start_offset = code, log_start_offset
        problem = f"responded to a fetch with error {code}" if code else "returned no records for this part of the log"
        super().__init__(f"the upstream broker {problem}")


def is_out_of_range(error: BaseException) -> bool:
    """Return whether a read failed because its offset is below the start of the log or above its end."""
    return isinstance(error, LogReadError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE


class LogPosition(NamedTuple):
    """A log to read: a partition of a topic, and the isolation level. It does not contain an offset."""

    topic: Topic
    partition: int
    read_committed: bool

    @property
    def key(self) -> CacheKey:
        """The cache key of this partition with this isolation level."""
        return CacheKey(self.topic.topic_id, self.partition, self.read_committed)


class _Pause(NamedTuple):
    """A pause in reading a part of a log. No read begins before `until`, in seconds of the event loop's clock.

    `length_s` is the length of the pause.
    """

    until: float
    length_s: float


class LogReader:
    """Reads parts of logs that are not cached. Callers that need the same part share one read."""

    def __init__(self, cluster: UpstreamCluster, cache: BatchCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._reading: dict[tuple[CacheKey, int], asyncio.Task[Chunk]] = {}
        self._paused: OrderedDict[tuple[CacheKey, int], _Pause] = OrderedDict()
        self._outages = OutageLogs(
            logger,
            "%(topic)s-%(partition)d: failed to read the log",
            "%(topic)s-%(partition)d: the log can be read again",
        )
        cluster.on_log_change(self._discard)

    def get_cached(self, position: LogPosition, offset: int, max_bytes: int) -> Sequence[Chunk]:
        """Return consecutive cached chunks of the log from `offset` on, up to about `max_bytes`.

        The result is empty if `offset` is not cached.
        """
        return self._cache.lookup(position.key, offset, max_bytes)

    def pause_s(self, position: LogPosition, offset: int) -> float:
        """Return for how many more seconds the log must not be read at `offset`.

        Such a pause follows a read that failed or found no records. The result is 0 if there is no pause.
        """
        pause = self._paused.get((position.key, offset))
        left_s = 0.0 if pause is None else pause.until - asyncio.get_running_loop().time()
        return left_s if left_s >= CLOCK_RESOLUTION_S else 0.0

    async def read(self, position: LogPosition, offset: int) -> None:
        """Read the part of the log that begins at `offset` into the cache.

        Raises LogReadError if no leader is known or the broker does not return this part, UpstreamUnavailableError if
        the broker does not respond, and CorruptRecordBatch if its response contains an invalid batch.
        """
        await asyncio.shield(self._task(position, offset))

    def prefetch(self, position: LogPosition, offset: int) -> None:
        """Start to read the log at `offset`, unless it is cached or must not be read yet (see `pause_s`).

        An error of this read is raised only by calls of `read` for the same offset.
        """
        if not self._cache.lookup(position.key, offset, 1) and not self.pause_s(position, offset):
            self._task(position, offset)

    def _task(self, position: LogPosition, offset: int) -> asyncio.Task[Chunk]:
        key = (position.key, offset)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.ensure_future(self._read(position, offset))
            task.add_done_callback(lambda done: self._on_ended(key, done, position.topic.name))
        return task

    def _on_ended(self, key: tuple[CacheKey, int], task: asyncio.Task[Chunk], topic: str) -> None:
        """Handle the end of a read. If it failed or found no records, the next read of the same part is delayed."""
        del self._reading[key]
        last = self._paused.pop(key, None)
        if task.cancelled():
            return
        error = task.exception()
        if not isinstance(error, (LogReadError, UpstreamUnavailableError)):
            self._outages.report_success(key[0])
            return
        if not is_out_of_range(error):
            fields = LogFields(topic=topic, partition=key[0].partition)
            self._outages.report_failure(key[0], error, fields)
        length_s = FIRST_PAUSE_S if last is None else min(2 * last.length_s, MAX_PAUSE_S)
        self._paused[key] = _Pause(task.get_loop().time() + length_s, length_s)
        if len(self._paused) > MAX_PAUSED:
            self._paused.popitem(last=False)

    def _discard(self, topic_id: UUID, partition: int) -> None:
        for read_committed in (False, True):
            log = CacheKey(topic_id, partition, read_committed)
            self._cache.discard(log)
            self._outages.discard(log)
        for key in [key for key in self._paused if key[0][:2] == (topic_id, partition)]:
            del self._paused[key]

    async def _read(self, position: LogPosition, offset: int) -> Chunk:
        leader = self._leader(position)
        found = await self._fetch(position, leader, offset)
        if self._cache.last_offset(position.key) >= found.high_watermark:
            self._discard(position.topic.topic_id, position.partition)  # the cached log was replaced
        chunk = chunk_from(found, offset, position.read_committed)
        if chunk is None:
            raise LogReadError(int(ErrorCode.NONE), found.log_start_offset)
        if self._leader(position) == leader:  # else the leader changed during the read, so the result may be outdated
            self._cache.insert(position.key, chunk)
        return chunk

    def _leader(self, position: LogPosition) -> Leader:
        """Return the current leader of the partition. Raises LogReadError (UNKNOWN_TOPIC_ID) if none is known."""
        leader = self._cluster.leader(position.topic.topic_id, position.partition)
        if leader is None:
            raise LogReadError(int(ErrorCode.UNKNOWN_TOPIC_ID), -1)
        return leader

    async def _fetch(self, position: LogPosition, leader: Leader, offset: int) -> _Fetched:
        """Fetch the log from `offset`, and return the broker's response for the partition.

        Raises LogReadError if the response contains an error or does not contain the partition.
        """
        request = _fetch_request(position, offset)
        newest = NAMES_FETCH_VERSION if position.topic.has_made_id else IDS_FETCH_VERSION
        response = await self._request(position, leader, request, newest)
        if response.error_code:
            raise LogReadError(response.error_code, -1)
        if not response.responses:  # the response of a broker that throttles us
            raise LogReadError(int(ErrorCode.NONE), -1)
        found = response.responses[0].partitions[0]
        if not found.error_code:
            return found
        log_start_offset = found.log_start_offset
        if found.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._cluster.try_refresh()  # the broker does not lead the partition or does not know it
        elif log_start_offset < 0:
            log_start_offset = await self._log_start_offset(position, leader)
        raise LogReadError(found.error_code, log_start_offset)

    async def _request(
        self, position: LogPosition, leader: Leader, request: FetchRequest, newest: int
    ) -> FetchResponse:
        fetch = self._cluster.ask(leader.node_id, request, FetchResponse, newest, READ_TIMEOUT_S)
        return await self._cluster.while_leading(partial(self._leader, position), fetch)

    async def _log_start_offset(self, position: LogPosition, leader: Leader) -> int:
        """Request the log start offset from the leader and return it; -1 if it is unknown.

        Called if a fetch response with the error OFFSET_OUT_OF_RANGE does not contain this offset.
        """
        partition = TopicPartition(position.topic.name, position.partition)
        request = list_offsets_request({partition: EARLIEST})
        response = await self._cluster.ask(leader.node_id, request, ListOffsetsResponse, timeout_s=READ_TIMEOUT_S)
        return read_offsets(response).get(partition, -1)


def chunk_from(found: _Fetched, offset: int, read_committed: bool) -> Chunk | None:
    """Return one partition of a Fetch response as a chunk that begins at `offset`; None if there are no batches."""
    aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions or ()]
    records = found.records or b""
    assert not isinstance(records, ApiData)  # kafka-python decodes records only for its own metadata topics
    batches = read_batches(records, offset, aborted if read_committed else ())
    return Chunk(offset, batches[-1].last_offset, tuple(batches), len(records)) if batches else None


def fetch_partition(partition: int, offset: int) -> FetchRequest.FetchTopic.FetchPartition:
    """Return the part of a Fetch request that reads a partition from `offset`, up to `READ_BYTES`."""
    return FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=READ_BYTES,
    )


def _fetch_request(position: LogPosition, offset: int) -> FetchRequest:
    request = FetchRequest
    topic = request.FetchTopic
    wanted = fetch_partition(position.partition, offset)
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
