"""A member of a share group in the driver: the thread that heartbeats, asks, offers batches and renews locks."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafka.errors import KafkaError

from sharegroup.errors import ShareGroupError
from sharegroup.protocol.request_rows import (
    ACKNOWLEDGE,
    FETCH,
    MAX_RANGES_PER_ROW,
    UNACQUIRE,
    ShareGroupRequest,
    SharePartitionRequest,
    TopicMetadata,
    in_rows,
)
from sharegroup.protocol.response_rows import Response, ShareGroupResponse, SharePartitionResponse
from sharegroup.spark.share_consumer.acknowledgement_round import AcknowledgementRound, uniform
from sharegroup.spark.share_consumer.fetch_demands import FetchDemands, ranges_of
from sharegroup.spark.share_consumer.holdings import Holdings, Offers
from sharegroup.spark.share_consumer.membership import Membership
from sharegroup.spark.share_consumer.ranges import HeldRange, OfferedBatch, SharePartition, records_in
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, OffsetRange

logger = logging.getLogger(__name__)

POLL_MS = 50
METADATA_INTERVAL_MS = 30_000
#: While a subscribed topic does not exist yet.
MISSING_TOPIC_INTERVAL_MS = 1_000
#: The member holds up to this many batches ahead of the running one.
READ_AHEAD = 2

Request = ShareGroupRequest | SharePartitionRequest


class NotAnsweredError(ShareGroupError):
    """The share-group job did not answer in time: is it running, with these topics?"""


class Channel(Protocol):
    """`row_channel.RowChannel`."""

    def open(self) -> bool:
        """Begin to read responses."""

    def poll(self, timeout_ms: int) -> list[Response]:
        """Responses to this member."""

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        """Produce rows."""

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Ids and partition counts."""

    def close(self) -> None:
        """Close."""


class MemberSettings(NamedTuple):
    """Who the member is and how much it takes; times in milliseconds."""

    group_id: str
    member_id: str
    topics: tuple[str, ...]
    max_records: int
    client_id: str = ""
    client_host: str = ""
    fetch_max_wait_ms: int = 10_000
    acknowledge_timeout_ms: int = 300_000
    max_processing_ms: int = 300_000
    leave_timeout_ms: int = 10_000


class Member:
    """See the module. `failure` is what ended the membership for good, if anything did; `redelivered` counts ranges
    whose acknowledgement came too late: they were or will be delivered again."""

    def __init__(
        self, settings: MemberSettings, channel: Channel, offers: Offers, on_failure: Callable[[], None]
    ) -> None:
        self.incarnation = uuid.uuid4().hex[:12]
        self.failure: Exception | None = None
        self.redelivered = 0
        self._settings, self._channel, self._on_failure = settings, channel, on_failure
        self._ids = map(f"{self.incarnation}-{{}}".format, itertools.count())  # not a generator: two threads draw
        self._membership = Membership(
            settings.group_id, settings.member_id, settings.topics, settings.client_id, settings.client_host, self._ids
        )
        target = READ_AHEAD * settings.max_records
        self._demands = FetchDemands(
            settings.group_id, settings.member_id, target, settings.fetch_max_wait_ms, self._ids
        )
        self._holdings = Holdings(offers, self.incarnation, settings.max_records)
        self._acknowledgements: AcknowledgementRound | None = None
        self._renewal: AcknowledgementRound | None = None
        self._metadata: dict[str, TopicMetadata] = {}
        self._metadata_due_ms = 0
        self._is_open = False
        self._may_ask = True
        self._closing_until_ms: int | None = None
        self._has_left = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="share-consumer-member", daemon=True)

    @property
    def member_id(self) -> str:
        """The member's id in the group."""
        return self._settings.member_id

    @property
    def assignment(self) -> frozenset[SharePartition]:
        """What the member is to fetch from; empty until it has joined."""
        return self._membership.assignment

    # -- for the driver --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and begin to ask, when the job's topics are there."""
        self._thread.start()

    def stop_offering(self) -> None:
        """Offer no further batch and ask for nothing more; the running batch goes on."""
        with self._changed:
            self._may_ask = False
            self._holdings.stop_offering(_now_ms())

    def close(self) -> None:
        """Wait for the last answers, give unused ranges back, leave the group, and end the thread."""
        self.stop_offering()
        with self._changed:
            self._closing_until_ms = _now_ms() + self._settings.leave_timeout_ms
        if self._thread.is_alive():
            self._thread.join(3 * self._settings.leave_timeout_ms / 1000)

    # -- for the running batch -------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch) -> tuple[HeldRange, ...]:
        """The ranges of a batch that are (still) the member's; from now on their locks are renewed.

        A batch that this process offered is taken as it is. One of an earlier process is renewed first: what was not
        renewed is finished or lost, and is left out; the rest has the delivery counts of today, as this process may
        have been granted it once more, after others. Raises NotAnsweredError.
        """
        if batch.incarnation == self.incarnation:
            with self._changed:
                self._holdings.see_claim(_now_ms())
            return batch.ranges
        logger.info("batch %d of an earlier run is run again: renewing %d ranges", batch.seq, len(batch.ranges))
        renewal = self._renewal_of(batch.ranges)
        with self._changed:
            self._renewal = renewal
        self._await(renewal)
        with self._changed:
            held = self._still_held(batch.ranges, renewal)
            self._holdings.run(batch.seq, held, _now_ms())
        lost = records_in(batch.ranges) - records_in(held)
        if lost:
            logger.warning("%d records of the batch are not ours any more", lost)
        return held

    def holds_batch(self) -> bool:
        """Whether the running batch's locks are all held, so that nobody else can have got its records."""
        with self._changed:
            running = self._holdings.running
            return running is not None and running.is_held(_now_ms())

    def acknowledge(self, batches: Mapping[SharePartition, Sequence[AcknowledgementBatch]]) -> None:
        """Append acknowledgements to the request topic, durably; renewals of the running batch end.

        An acknowledgement counts from its append, so this is what a batch has to wait for. The answers, which say only
        what came too late, are awaited by the next call and by `close`. Raises NotAnsweredError.
        """
        previous = self._acknowledgements
        if previous is not None:
            self._await(previous)
        following = AcknowledgementRound(self._settings.group_id, self._settings.member_id, batches, self._ids)
        deadline_ms = _now_ms() + self._settings.acknowledge_timeout_ms
        while not self._append(following):
            if _now_ms() > deadline_ms:
                raise NotAnsweredError("acknowledgements could not be appended to the request topic")
            time.sleep(1)  # the broker is away: there is nothing to wait on

    def finish(self, seq: int) -> None:
        """The batch is acknowledged."""
        with self._changed:
            self._holdings.finish(seq)

    def _append(self, acknowledgements: AcknowledgementRound) -> bool:
        with self._changed:
            self._renewal = None
            if self._holdings.running is not None:
                self._holdings.running.renewable.clear()
            requests = acknowledgements.due(self._epoch(), _now_ms()) if self._is_open else []
            if not requests:
                return acknowledgements.is_done
            self._acknowledgements = acknowledgements
        try:
            self._channel.send(requests, wait=True)
        except KafkaError as error:
            logger.warning("acknowledgements could not be appended, will try again: %s", error)
            return acknowledgements.is_done
        return True

    def _await(self, awaited: AcknowledgementRound) -> None:
        """Wait for the answers, which the thread takes in; it also sends what is due."""
        timeout_s = self._settings.acknowledge_timeout_ms / 1000
        with self._changed:
            if not self._changed.wait_for(lambda: awaited.is_done or self.failure is not None, timeout_s):
                raise NotAnsweredError(f"the share-group job has not answered member {self._settings.member_id}")
            if not awaited.is_done:
                raise NotAnsweredError("the member has failed") from self.failure

    def _still_held(self, ranges: Sequence[HeldRange], renewal: AcknowledgementRound) -> tuple[HeldRange, ...]:
        if renewal.not_allowed:
            return tuple(held for held in ranges if held.lock_deadline_ms > _now_ms())
        return renewal.renewed(ranges)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._step()
                except KafkaError as error:
                    logger.warning("the member cannot reach Kafka, will try again: %s", error)
                    time.sleep(1)  # there is nothing to wait on
        except Exception as error:  # noqa: BLE001 - told by `failure`, which ends the query
            self._fail(error)
        finally:
            self._channel.close()

    def _is_over(self) -> bool:
        until_ms = self._closing_until_ms
        return until_ms is not None and (self._membership.left or self.failure is not None or _now_ms() > until_ms)

    def _step(self) -> None:
        if not self._is_open:
            self._is_open = self._channel.open()
            if not self._is_open:
                time.sleep(POLL_MS / 1000)  # the job has not made its topics yet
                return
        self._refresh_metadata()
        responses = self._channel.poll(POLL_MS)
        with self._changed:
            now_ms = _now_ms()
            requests = [request for response in responses for request in self._take(response, now_ms)]
            requests += self._due(now_ms)
            self._changed.notify_all()
        self._send(requests)
        if self._membership.fatal is not None and self.failure is None:
            self._fail(self._membership.fatal)

    def _send(self, requests: Sequence[Request]) -> None:
        renews = any(isinstance(request, SharePartitionRequest) and request.is_renew_ack for request in requests)
        self._channel.send(requests, wait=renews)
        with self._changed:
            if renews and self._holdings.running is not None:
                self._holdings.running.renewal_appended(_now_ms())

    def _refresh_metadata(self) -> None:
        now_ms = _now_ms()
        if now_ms < self._metadata_due_ms:
            return
        self._metadata = self._channel.topics_metadata(self._settings.topics)
        missing = [name for name in self._settings.topics if name not in self._metadata]
        if missing:
            logger.info("subscribed topics that do not exist yet: %s", ", ".join(missing))
        self._metadata_due_ms = now_ms + (MISSING_TOPIC_INTERVAL_MS if missing else METADATA_INTERVAL_MS)

    def _take(self, response: Response, now_ms: int) -> list[Request]:
        if isinstance(response, ShareGroupResponse):
            if self._membership.take(response, now_ms):
                self._demands.forget()
                self._holdings.forget(now_ms)
            return []
        if response.type != FETCH:
            for waiting in (self._acknowledgements, self._renewal):
                if waiting is not None and waiting.take(response, now_ms):
                    self._settle(waiting, now_ms)
                    break
            return []
        if not response.id.startswith(self.incarnation):
            return self._release_foreign(response)
        self._holdings.add(self._demands.take(response, now_ms), now_ms)
        return []

    def _settle(self, answered: AcknowledgementRound, now_ms: int) -> None:
        if not answered.is_done:
            return
        if answered is self._acknowledgements:
            self._acknowledgements = None
            self.redelivered += len(answered.refused)
            if answered.refused:
                logger.warning("%d ranges were acknowledged too late, and are redelivered", len(answered.refused))
            return
        self._renewal = None
        running = self._holdings.running
        if running is None:
            return
        if answered.not_allowed:
            running.renewable.clear()
            running.is_renewing = False
            logger.warning("the group does not allow renewals: a batch must end before its locks do")
            return
        missing = running.take_renewal(answered.renewed(running.renewable), bool(answered.refused), now_ms)
        if missing:
            logger.warning("the locks of %d records of the running batch could not be renewed", missing)

    def _release_foreign(self, response: SharePartitionResponse) -> list[Request]:
        """A fetch of an earlier process of this member was granted: to be delivered again, visibly a second time."""
        found = [
            (held.share_partition, held.first_offset, held.last_offset)
            for held in ranges_of(response)
            if not self._holdings.has(held)
        ]
        released = uniform(found, AcknowledgeType.RELEASE)
        return [
            self._partition_request(ACKNOWLEDGE, share_partition, batches=batches)
            for share_partition, listed in released.items()
            for batches in in_rows(listed, MAX_RANGES_PER_ROW)
        ]

    def _due(self, now_ms: int) -> list[Request]:
        requests: list[Request] = []
        heartbeat = self._membership.heartbeat(self._metadata, now_ms) if self._metadata else None
        if heartbeat is not None:
            requests.append(heartbeat)
        given_back = self._holdings.step(now_ms)
        requests += self._unacquire(given_back)
        if self._may_ask and self._membership.has_joined and not self._holdings.is_stalled:
            requests += self._demands.due(
                self._membership.assignment, self._holdings.waiting_records, self._epoch(), now_ms
            )
        self._renew(now_ms)
        for waiting in (self._acknowledgements, self._renewal):
            requests += waiting.due(self._epoch(), now_ms) if waiting is not None else []
        if self._closing_until_ms is not None and self._acknowledgements is None and not self._has_left:
            self._has_left = True
            requests += self._unacquire(self._holdings.give_all_back(now_ms))
            leaving = self._membership.leave()
            requests += [] if leaving is None else [leaving]
        return requests

    def _renew(self, now_ms: int) -> None:
        running = self._holdings.running
        if running is None or not running.renewable:
            return
        if now_ms - running.began_ms >= self._settings.max_processing_ms:
            running.give_up()
            logger.warning(
                "batch %d has run for max_processing_ms (%d): its locks are renewed no more, its records go to others",
                running.seq, self._settings.max_processing_ms,
            )  # fmt: skip
        elif now_ms >= running.renew_at_ms and self._renewal is None:
            self._renewal = self._renewal_of(running.renewable)

    def _renewal_of(self, ranges: Iterable[HeldRange]) -> AcknowledgementRound:
        batches = uniform([(r.share_partition, r.first_offset, r.last_offset) for r in ranges], AcknowledgeType.RENEW)
        return AcknowledgementRound(
            self._settings.group_id, self._settings.member_id, batches, self._ids, is_renewal=True
        )

    def _unacquire(self, ranges: Sequence[HeldRange]) -> list[Request]:
        by_share_partition: dict[SharePartition, list[OffsetRange]] = {}
        for held in sorted(ranges):
            offsets = OffsetRange(held.first_offset, held.last_offset)
            by_share_partition.setdefault(held.share_partition, []).append(offsets)
        return [
            self._partition_request(UNACQUIRE, share_partition, ranges=offset_ranges)
            for share_partition, listed in by_share_partition.items()
            for offset_ranges in in_rows(listed, MAX_RANGES_PER_ROW)
        ]

    def _partition_request(
        self,
        kind: str,
        share_partition: SharePartition,
        batches: tuple[AcknowledgementBatch, ...] = (),
        ranges: tuple[OffsetRange, ...] = (),
    ) -> SharePartitionRequest:
        """A request whose answer nobody waits for; it is asked for, because the job logs refusals it cannot tell."""
        return SharePartitionRequest(
            kind, next(self._ids), self._settings.group_id, *share_partition, self.member_id, self._epoch(),
            reply_to=self.member_id, batches=batches, ranges=ranges,
        )  # fmt: skip

    def _epoch(self) -> int:
        """The member's epoch for a request row, -1 (not checked) before it has joined."""
        return self._membership.member_epoch if self._membership.has_joined else -1

    def _fail(self, error: Exception) -> None:
        logger.error("the member has failed", exc_info=error)
        with self._changed:
            self.failure = error
            self._changed.notify_all()
        self._on_failure()


def _now_ms() -> int:
    return int(time.time() * 1000)
