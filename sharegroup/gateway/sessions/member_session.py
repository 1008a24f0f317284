"""A share session while it is served: its partitions with their buffers, and the records of one response.

A response holds complete record batches, each once, and lists only offsets that they cover; see `slicing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from sharegroup.config import GroupConfig, IsolationLevel
from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.batch_cache import batches_from
from sharegroup.gateway.records.log_reader import LogPosition, LogReader, LogReadError
from sharegroup.gateway.records.slicing import Limits, Slice, alike_attempts, slice_response
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.poll_rhythm import PollRhythm
from sharegroup.gateway.sessions.share_session import ShareSession, TopicIdPartition
from sharegroup.gateway.upstream.cluster import Topic
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
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


class MemberSession:
    """Serves the fetches and acknowledgements of one share session; `make` gives a partition's MemberPartition when it
    is first named. `group_config` returns the group's current config."""

    def __init__(
        self,
        session: ShareSession,
        reader: LogReader,
        make: Callable[[TopicIdPartition, Callable[[], None]], MemberPartition],
        group_config: Callable[[], GroupConfig],
    ) -> None:
        self.session = session
        self.rhythm = PollRhythm()
        self._reader = reader
        self._make = make
        self._group_config = group_config
        self._partitions: dict[TopicIdPartition, MemberPartition] = {}
        self._news = asyncio.Event()
        self._look_again_s: float | None = None

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

    def close(self, owned: Container[TopicIdPartition], is_final: bool = False) -> None:
        """The session is over: `owned` are the partitions that the member has fetched nowhere else since. What a static
        member was sent stays its own, unless its client has ended it (`is_final`)."""
        for key, partition in self._partitions.items():
            if key in owned and (is_final or not partition.is_static):
                partition.close()
            else:
                partition.leave()

    def hand_over(self, key: TopicIdPartition) -> MemberPartition:
        """The member fetches the partition through another session from now on, which takes this over."""
        self._news.set()
        return self._partitions.pop(key)

    def take_over(self, key: TopicIdPartition, partition: MemberPartition) -> None:
        """What the member has of the partition, from another of its sessions."""
        partition.arrived = self._news.set
        self._partitions[key] = partition

    def topic_deleted(self, topic_id: UUID) -> None:
        """The job says that the topic is no more."""
        for key in [key for key in self._partitions if key.topic_id == topic_id]:
            self._partitions.pop(key).topic_deleted()

    def look_again(self, key: TopicIdPartition) -> None:
        """The partition's leader is another, or the topic is gone: a fetch that waits for it should know."""
        if key in self._partitions:
            self._news.set()

    def new_leader(self) -> None:
        """The job has started anew: demands that stood may not be known to it, and are sent again."""
        for partition in self._partitions.values():
            partition.read_ahead.lost()
        self._news.set()

    def drain(self) -> None:
        """The member gets no more records here: what is ahead of it, or comes still, goes back."""
        for partition in self._partitions.values():
            partition.drain()
        self._news.set()

    def upkeep(self, now_ms: int, least_idle_ms: int, most_idle_ms: int) -> None:
        """Give back what is nearly too late, what the member does not fetch any more, and all if it is idle."""
        is_idle = self.rhythm.is_idle(now_ms, least_idle_ms, most_idle_ms)
        for key, partition in self._partitions.items():
            if partition.read_ahead.buffered:
                partition.expire(now_ms)
                if is_idle or key not in self.session.partitions:
                    partition.idle()

    def stopped_waiting(self) -> None:
        """The response is made: no fetch of the member waits any more."""
        for partition in self._partitions.values():
            partition.read_ahead.stopped_waiting()

    def forget(self, partitions: Sequence[TopicIdPartition]) -> None:
        """Partitions that the member does not fetch any more: what is ahead of it goes back."""
        for key in partitions:
            if key not in self.session.partitions and key in self._partitions:
                self._partitions[key].idle()

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
        self._look_again_s = None

    async def wait(self, timeout_s: float) -> None:
        """Wait until something came for one of the partitions, or a read may be tried again, for so long at most."""
        again_s = self._look_again_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s if again_s is None else min(again_s, timeout_s))

    def must_wait_for(self, key: TopicIdPartition, now_ms: int) -> bool:
        """Whether there is nothing for the member in a partition's buffer; the member's fetch then waits for some."""
        buffer = self.partition(key).read_ahead
        if buffer.buffered:
            return False
        buffer.client_waits(now_ms)
        return True

    def unanswered(
        self, partitions: Sequence[TopicIdPartition], rounds: dict[TopicIdPartition, int]
    ) -> list[TopicIdPartition]:
        """Those of the partitions whose demands had no answer since they were put into `rounds`, as new ones are."""
        answered = {key: self.partition(key).rounds for key in partitions}
        return [key for key in partitions if rounds.setdefault(key, answered[key]) == answered[key]]

    def ask(self, partitions: Sequence[TopicIdPartition], wanted: int, now_ms: int, is_round: bool = False) -> None:
        """Let demands stand at the job; `is_round`: it answers them after one round, also without records."""
        for key in partitions:
            self.partition(key).ask(now_ms, wanted, is_round)

    async def take(
        self,
        key: TopicIdPartition,
        topic: Topic,
        limits: FetchLimits,
        is_first: bool,
        now_ms: Callable[[], int],
        may_wait: bool = False,
    ) -> PartRecords | None:
        """What the buffer has of a partition, within the limits; None if there is nothing to send now.

        `is_first`: nothing else is in the response yet, so that a batch may be larger than MaxBytes. `now_ms`: the
        brokers' time; reading takes some. `may_wait`: the fetch may wait until a record batch, of which the member has
        acquired a part, is complete.
        """
        partition = self.partition(key)
        buffer = partition.read_ahead
        most = min(limits.max_bytes, MAX_PART_BYTES)
        while True:
            partition.expire(now_ms())
            ranges, read_committed = buffer.part()
            config = self._group_config()
            if ranges and not read_committed and config.isolation_level is IsolationLevel.READ_COMMITTED:
                partition.give_back_uncommitted()
                continue
            if not ranges:
                buffer.client_waits(now_ms())
                return None
            first = ranges[0].first_offset
            position = LogPosition(topic, key.partition, read_committed)
            chunks = self._reader.cached(position, first, most)
            part = batches_from(chunks, first, most)
            if part is None:
                if not await self._read(partition, position, first):
                    return None
                continue
            limits = limits._replace(max_records=buffer.credit.at_once(limits.max_records, now_ms()))
            ranges = alike_attempts(ranges, config.delivery_count_limit)
            taken = slice_response(ranges, part.batches, part.covered, Limits(*limits, must_progress=is_first))
            if may_wait and not limits.is_record_limit and partition.awaits_rest(taken, now_ms()):
                return None
            deadline_ms = partition.take(taken, now_ms())
            if deadline_ms is not None:
                self._read_on(taken.left, position, chunks[-1].last_offset)
                return PartRecords(taken, deadline_ms)
            if not taken.gaps:
                return None  # no room left in this response

    def withdraw(self, key: TopicIdPartition, found: PartRecords, now_ms: int) -> bool:
        """Whether what was taken is not to be sent any more, its locks being nearly over; it is given back then."""
        partition = self._partitions.get(key)
        return partition is not None and partition.withdraw(found.slice, found.lock_deadline_ms, now_ms)

    async def _read(self, partition: MemberPartition, position: LogPosition, offset: int) -> bool:
        """Have the log from `offset` on; False if it is not to be had now. The buffer may be another one after this."""
        if not self._reader.pause_s(position, offset):
            try:
                await self._reader.read(position, offset)
                return True
            except LogReadError as error:
                logger.warning("%s at offset %d: %s", partition.key, offset, error)
                if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and partition.drop_before(error.log_start_offset):
                    return True
            except UpstreamUnavailableError as error:
                logger.warning("%s at offset %d: %s", partition.key, offset, error)
        again_s = self._reader.pause_s(position, offset)
        self._look_again_s = again_s if self._look_again_s is None else min(again_s, self._look_again_s)
        return False

    def _read_on(self, ranges: Sequence[AcquiredRange], position: LogPosition, covered_to: int) -> None:
        """Read what the next response will need, before it is asked for."""
        for first, last, _ in ranges:
            if last > covered_to:
                self._reader.read_soon(position, max(first, covered_to + 1))
                return
