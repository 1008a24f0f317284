"""Serves one share session: its partitions with their buffers, and the records of each response.

A response contains complete record batches, each once, and lists only offsets in these batches; see `slicing`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from sharegroup.config import GroupConfig, IsolationLevel
from sharegroup.gateway.records.batch_cache import batches_from
from sharegroup.gateway.records.log_reader import LogPosition, LogReader, LogReadError, is_out_of_range
from sharegroup.gateway.records.slicing import Limits, Slice, leading_together, slice_response
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.poll_rhythm import PollRhythm
from sharegroup.gateway.upstream.cluster import Topic
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.log_fields import LogFields
from sharegroup.protocol.share_session import ShareSession, TopicIdPartition
from sharegroup.types import AcquiredRange

logger = logging.getLogger(__name__)

#: Most bytes of one partition that are read for one response. More bytes would mostly be batches beyond MaxRecords,
#: which only cost time on the event loop.
MAX_PARTITION_BYTES = 1_048_576


class PartitionRecords(NamedTuple):
    """The records of one partition in a response, and when the first of their locks ends (ms since the epoch)."""

    slice: Slice
    lock_deadline_ms: int


class FetchLimits(NamedTuple):
    """The limits in a ShareFetch: MaxRecords, MaxBytes, BatchSize and whether MaxRecords is exact (KIP-1206)."""

    max_records: int
    max_bytes: int
    batch_size: int
    is_record_limit: bool


class MemberSession:
    """Serves the fetches and acknowledgements of one share session.

    `make` creates the MemberPartition of a share-partition when the session first uses it. Its arguments are the
    partition and a function that the MemberPartition calls after a change. `group_config` returns the current config of
    the group.
    """

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
        #: A superset of the partitions for which records are buffered.
        self._changed: dict[TopicIdPartition, None] = {}
        self._news = asyncio.Event()
        self._look_again_s: float | None = None

    # -- partitions --------------------------------------------------------------------------------------------------

    def get_partition(self, key: TopicIdPartition) -> MemberPartition:
        """Return the MemberPartition of a share-partition. It is created at the first call for this partition."""
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = self._make(key, functools.partial(self._on_change, key))
        return found

    def _on_change(self, key: TopicIdPartition) -> None:
        self._changed[key] = None
        self._news.set()

    def open(self, partitions: Sequence[TopicIdPartition]) -> None:
        """Start a new session. The job then releases the records that the member held in these partitions."""
        for key in partitions:
            self.get_partition(key).open()

    def close(self, owned: Container[TopicIdPartition], is_final: bool = False) -> None:
        """End the session, and release the records of its partitions in `owned`.

        `owned` excludes partitions that were removed from the session, and those that the member now fetches through
        another session. For these, only buffered records are returned to the job, and the member keeps the records that
        it was sent. The same applies to all partitions of a static member, unless its client has ended the session
        itself (`is_final`).
        """
        for key, partition in self._partitions.items():
            if key in owned and (is_final or not partition.is_static):
                partition.close()
            else:
                partition.stop_fetching()

    def remove_partition(self, key: TopicIdPartition) -> MemberPartition:
        """Remove and return a partition that the member now fetches through another session."""
        self._news.set()
        return self._partitions.pop(key)

    def add_partition(self, key: TopicIdPartition, partition: MemberPartition) -> None:
        """Add a partition that another session of the member has removed."""
        partition.on_change = functools.partial(self._on_change, key)
        self._partitions[key] = partition
        self._changed[key] = None

    def on_topic_deleted(self, topic_id: UUID) -> None:
        """Remove the partitions of a deleted topic."""
        for key in [key for key in self._partitions if key.topic_id == topic_id]:
            self._partitions.pop(key).on_topic_deleted()

    def on_leader_change(self, key: TopicIdPartition) -> None:
        """Wake a waiting fetch, because the partition has a new leader or its topic was deleted."""
        if key in self._partitions:
            self._news.set()

    def on_new_leader(self) -> None:
        """Regard all open demands as lost, because the job has restarted. Waiting fetches send them again."""
        for partition in self._partitions.values():
            partition.read_ahead.mark_demand_lost()
        self._news.set()

    def drain(self) -> None:
        """Stop delivering records. Buffered records and records that arrive later are returned to the job."""
        for partition in self._partitions.values():
            partition.drain()
        self._news.set()

    def upkeep(self, buffered: Iterable[TopicIdPartition], now_ms: int, least_idle_ms: int, most_idle_ms: int) -> None:
        """Return to the job those records in the partitions `buffered` that the member will not fetch in time.

        These are records whose locks have nearly expired, records of partitions that are no longer fetched, and all
        records of an idle member. The time after which the member counts as idle depends on its usual pauses. It is at
        least `least_idle_ms` and at most `most_idle_ms`.
        """
        is_idle = self.rhythm.is_idle(now_ms, least_idle_ms, most_idle_ms)
        for key in buffered:
            partition = self._partitions[key]
            partition.unacquire_expiring(now_ms)
            if is_idle or key not in self.session.partitions:
                partition.unacquire_read_ahead()

    def end_wait(self) -> None:
        """Record that the member's fetch has ended, so it no longer waits for records of any partition."""
        for partition in self._partitions.values():
            partition.read_ahead.end_wait()

    def forget(self, partitions: Sequence[TopicIdPartition]) -> None:
        """Stop fetching those of `partitions` that are no longer in the session. A fetch has requested to remove them.

        A partition can still be in the session if a later fetch has added it again, or if the fetch closes the session.
        Nothing is done for such a partition.
        """
        for key in partitions:
            if key not in self.session.partitions and key in self._partitions:
                self._partitions[key].forget()

    def buffered_partitions(self) -> list[TopicIdPartition]:
        """Return the partitions for which records are buffered."""
        for key in list(self._changed):
            partition = self._partitions.get(key)
            if partition is None or not partition.read_ahead.buffered:
                del self._changed[key]
        return list(self._changed)

    @property
    def partitions(self) -> Iterable[TopicIdPartition]:
        """The partitions for which this session has a MemberPartition."""
        return self._partitions.keys()

    @property
    def member_partitions(self) -> Iterable[MemberPartition]:
        """The MemberPartitions of this session."""
        return self._partitions.values()

    # -- records -----------------------------------------------------------------------------------------------------

    def clear_changes(self) -> None:
        """Discard earlier changes, so that only changes after this call end the next `wait`.

        A change is anything after which a waiting fetch must check its partitions: records or a response of the job
        have arrived, a partition has a new leader or was moved to another session, its topic was deleted, the job has
        restarted, or the gateway shuts down.
        """
        self._news.clear()
        self._look_again_s = None

    @property
    def has_changed(self) -> bool:
        """Whether a waiting fetch must check its partitions again: something changed after `clear_changes`."""
        return self._news.is_set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until there is a change (see `clear_changes`) or a failed read may be retried.

        Returns False if neither happens within `timeout_s` seconds.
        """
        again_s = self._look_again_s
        is_again = again_s is not None and again_s < timeout_s
        try:
            await asyncio.wait_for(self._news.wait(), again_s if is_again else timeout_s)
        except TimeoutError:
            return is_again
        return True

    def begin_wait(self, key: TopicIdPartition, now_ms: int) -> None:
        """Record that the fetch waits for records of a partition, unless some are buffered."""
        partition = self._partitions.get(key)
        if partition is not None and not partition.read_ahead.buffered:
            partition.read_ahead.begin_wait(now_ms)

    def unanswered(
        self, partitions: Sequence[TopicIdPartition], rounds: dict[TopicIdPartition, int]
    ) -> list[TopicIdPartition]:
        """Return the partitions for which the job has sent no response since they were added to `rounds`.

        A fetch with MinBytes 0 waits for one response per partition. It passes the same `rounds`, at first empty, in
        each call. This method adds missing partitions, each with the number of the job's responses until then.
        """
        answered = {key: self.get_partition(key).rounds for key in partitions}
        return [key for key in partitions if rounds.setdefault(key, answered[key]) == answered[key]]

    def request_records(
        self, partitions: Sequence[TopicIdPartition], wanted: int, now_ms: int, is_round: bool = False
    ) -> None:
        """Send demands for records of these partitions to the job if needed.

        With `is_round`, the job responds after a short wait, even if there are no records.
        """
        for key in partitions:
            self.get_partition(key).request_records(now_ms, wanted, is_round)

    async def take_records(
        self,
        key: TopicIdPartition,
        topic: Topic,
        limits: FetchLimits,
        is_first: bool,
        now_ms: Callable[[], int],
        may_wait: bool = False,
    ) -> PartitionRecords | None:
        """Take records of a partition from its buffer and return them; None if nothing can be sent now.

        Args:
            key: the partition.
            topic: its topic.
            limits: the remaining limits of the response.
            is_first: whether the response is still empty, so that a batch may exceed MaxBytes.
            now_ms: a function that returns the brokers' time. It is called again after reading, which takes time.
            may_wait: whether the fetch may wait until the rest of a partly acquired record batch has been acquired.
                While it waits, the result is None.
        """
        partition = self.get_partition(key)
        buffer = partition.read_ahead
        most = min(limits.max_bytes, MAX_PARTITION_BYTES)
        while True:
            partition.unacquire_expiring(now_ms())
            ranges, read_committed = buffer.readable_ranges()
            config = self._group_config()
            if ranges and not read_committed and config.isolation_level is IsolationLevel.READ_COMMITTED:
                partition.unacquire_uncommitted()
                continue
            if not ranges:
                buffer.begin_wait(now_ms())
                return None
            first = ranges[0].first_offset
            position = LogPosition(topic, key.partition, read_committed)
            chunks = self._reader.get_cached(position, first, most)
            part = batches_from(chunks, first, most)
            if part is None:
                if not await self._read(partition, position, first):
                    return None
                continue
            limits = limits._replace(max_records=buffer.credit.max_records_now(limits.max_records, now_ms()))
            ranges = leading_together(ranges, config.delivery_count_limit)
            taken = slice_response(ranges, part.batches, part.covered, Limits(*limits, must_progress=is_first))
            if may_wait and not limits.is_record_limit and partition.must_wait_for_rest(taken, now_ms()):
                return None
            deadline_ms = partition.deliver(taken, now_ms())
            if deadline_ms is not None:
                self._read_on(taken.left, position, chunks[-1].last_offset)
                return PartitionRecords(taken, deadline_ms)
            if not taken.gaps:
                return None  # no room left in this response

    def withdraw_if_expiring(self, key: TopicIdPartition, found: PartitionRecords, now_ms: int) -> bool:
        """Withdraw the records `found` if their locks have nearly expired (see `MemberPartition.withdraw_if_expiring`).

        Returns True if they were withdrawn. The caller must then remove them from the response.
        """
        partition = self._partitions.get(key)
        return partition is not None and partition.withdraw_if_expiring(found.slice, found.lock_deadline_ms, now_ms)

    async def _read(self, partition: MemberPartition, position: LogPosition, offset: int) -> bool:
        """Read the log from `offset` into the cache. Return False if the log cannot be read now.

        After True, the caller must get the buffer's ranges again, because they may have changed meanwhile. After False,
        the next `wait` ends when the read may be retried.
        """
        if not self._reader.pause_s(position, offset):
            try:
                await self._reader.read(position, offset)
                return True
            except LogReadError as error:
                if is_out_of_range(error):
                    logger.warning(
                        "%(share_partition)s: failed to read the log at offset %(offset)d: %(error)s",
                        LogFields(share_partition=partition.key, offset=offset, error=error),
                    )
                    if partition.discard_before(error.log_start_offset):
                        return True
            except UpstreamUnavailableError:
                pass  # the reader has logged it
        again_s = self._reader.pause_s(position, offset)
        self._look_again_s = again_s if self._look_again_s is None else min(again_s, self._look_again_s)
        return False

    def _read_on(self, ranges: Sequence[AcquiredRange], position: LogPosition, covered_to: int) -> None:
        """Start to read the log at the first offset of `ranges` above `covered_to`, for the next response."""
        for first, last, _ in ranges:
            if last > covered_to:
                self._reader.prefetch(position, max(first, covered_to + 1))
                return
