"""A share session while it is served: its partitions with their buffers, and the records of one response.

A response holds complete record batches, each once, and lists only offsets that they cover; see `slicing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.gateway.batch_cache import batches_from
from sharegroup.gateway.log_reader import LogPosition, LogReader, LogReadError
from sharegroup.gateway.member_partition import MemberPartition
from sharegroup.gateway.share_session import ShareSession, TopicIdPartition
from sharegroup.gateway.slicing import Limits, Slice, slice_response
from sharegroup.gateway.upstream_connection import UpstreamUnavailableError
from sharegroup.types import AcquiredRange

logger = logging.getLogger(__name__)

#: Of one partition in one response: what is looked at beyond MaxRecords costs time on the event loop.
MAX_PART_BYTES = 1_048_576


class PartRecords(NamedTuple):
    """One partition's part of a response."""

    slice: Slice
    lock_deadline_ms: int


class FetchLimits(NamedTuple):
    """MaxRecords, MaxBytes, BatchSize and the acquire mode of a ShareFetch."""

    max_records: int
    max_bytes: int
    batch_size: int
    is_record_limit: bool


class ServedSession:
    """See the module; `make` gives a partition's MemberPartition when it is first named."""

    def __init__(
        self,
        session: ShareSession,
        reader: LogReader,
        make: Callable[[TopicIdPartition, Callable[[], None]], MemberPartition],
    ) -> None:
        self.session = session
        self._reader = reader
        self._make = make
        self._partitions: dict[TopicIdPartition, MemberPartition] = {}
        self._news = asyncio.Event()

    # -- partitions --------------------------------------------------------------------------------------------------

    def partition(self, key: TopicIdPartition) -> MemberPartition:
        """The member's part of a share-partition, made if need be."""
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = self._make(key, self._news.set)
        return found

    def open(self, partitions: Sequence[TopicIdPartition]) -> None:
        """The session is new: the job takes back what the member held here."""
        for key in partitions:
            self.partition(key).open()

    def close(self, owned: Container[TopicIdPartition]) -> None:
        """The session is over: `owned` are the partitions that the member has fetched nowhere else since."""
        for key, partition in self._partitions.items():
            if key in owned:
                partition.close()
            else:
                partition.leave()

    def hand_over(self, key: TopicIdPartition) -> None:
        """The member fetches the partition at another node from now on."""
        partition = self._partitions.pop(key, None)
        if partition is not None:
            partition.leave()

    def new_leader(self) -> None:
        """The job has started anew: demands that stood may not be known to it, and are sent again."""
        for partition in self._partitions.values():
            partition.read_ahead.lost()
        self._news.set()

    def forget(self, partitions: Sequence[TopicIdPartition], now_ms: int) -> None:
        """Partitions that the member does not fetch any more: what is ahead of it goes back."""
        for key in partitions:
            if key not in self.session.partitions and key in self._partitions:
                self._partitions[key].upkeep(now_ms, 0)

    def stopped_waiting(self, now_ms: int) -> None:
        """The response is made: no fetch of the member waits any more."""
        for partition in self._partitions.values():
            if partition.read_ahead.is_waiting:
                partition.read_ahead.stopped_waiting(now_ms)

    @property
    def partitions(self) -> Iterable[TopicIdPartition]:
        """The partitions that were named so far."""
        return self._partitions.keys()

    @property
    def parts(self) -> Iterable[MemberPartition]:
        """The member's parts of share-partitions."""
        return self._partitions.values()

    # -- records -----------------------------------------------------------------------------------------------------

    def clear_news(self) -> None:
        """What comes from now on ends the next `wait`."""
        self._news.clear()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until something came for one of the partitions; False if nothing did within so long."""
        try:
            await asyncio.wait_for(self._news.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True

    def is_dry(self, key: TopicIdPartition, now_ms: int) -> bool:
        """Whether there is nothing for the member in a partition's buffer; the member's fetch then waits for some."""
        buffer = self.partition(key).read_ahead
        if buffer.buffered:
            return False
        buffer.dry(now_ms)
        return True

    def ask(self, partitions: Sequence[TopicIdPartition], wanted: int, now_ms: int) -> None:
        """Let demands stand at the job."""
        for key in partitions:
            self.partition(key).ask(now_ms, wanted)

    async def take(
        self, key: TopicIdPartition, position: LogPosition, limits: FetchLimits, is_first: bool, now_ms: int
    ) -> PartRecords | None:
        """What the buffer has of a partition, within the limits; None if there is nothing to send now.

        `is_first`: nothing else is in the response yet, so that a batch may be larger than MaxBytes.
        """
        partition = self.partition(key)
        buffer = partition.read_ahead
        partition.expire(now_ms)
        while ranges := buffer.ranges():
            first = ranges[0].first_offset
            most = min(limits.max_bytes, MAX_PART_BYTES)
            chunks = self._reader.cached(position, first, most)
            part = batches_from(chunks, first, most)
            if part is None:
                if not await self._read(partition, position, first):
                    return None
                continue
            taken = slice_response(ranges, part.batches, part.covered, Limits(*limits, must_progress=is_first))
            deadline_ms = buffer.take(taken.acquired, taken.gaps, now_ms)
            partition.acknowledge_gaps(taken.gaps)
            if deadline_ms is not None:
                partition.handed_out(taken.acquired, deadline_ms, now_ms)
                self._read_on(taken.left, position, chunks[-1].last_offset)
                return PartRecords(taken, deadline_ms)
            if not taken.gaps:
                return None  # no room left in this response
        buffer.dry(now_ms)
        return None

    async def _read(self, partition: MemberPartition, position: LogPosition, offset: int) -> bool:
        try:
            await self._reader.read(position, offset)
            return True
        except LogReadError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                partition.drop_before(error.log_start_offset)
            logger.warning("%s at offset %d: %s", partition.key, offset, error)
        except UpstreamUnavailableError as error:
            logger.warning("%s at offset %d: %s", partition.key, offset, error)
        return False

    def _read_on(self, ranges: Sequence[AcquiredRange], position: LogPosition, covered_to: int) -> None:
        """Read what the next response will need, before it is asked for."""
        for first, last, _ in ranges:
            if last > covered_to:
                self._reader.read_soon(position, max(first, covered_to + 1))
                return
