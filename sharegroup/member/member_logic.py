"""The behaviour of a share group's member, without threads, clock and I/O.

The caller passes the time and the responses, and receives the requests to send.

After `mark_open` (responses can be read), the caller repeats these calls in this order:

    if logic.metadata_is_due(now_ms):
        logic.handle_metadata(found, now_ms)        # the metadata of the topics in `logic.subscription`
    requests = logic.step(responses, now_ms)        # append these requests
    logic.mark_appended(requests, now_ms)           # only after that

until `is_over` returns True. If `has_renewal(requests)` is True, the brokers must have stored the requests before
`mark_appended` is called. `now_ms` is the time of a steady clock. Lock deadlines are times of the brokers' clocks, and
`set_brokers_clock` sets how far these are ahead.

For each batch that the source has claimed, the caller also calls `begin`, `acknowledge` and `finish`. The first two
need responses, so they return an object to poll (`batch_calls`).
"""

import itertools
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.consumer_metrics import FETCH_MANAGER, ConsumerMetrics, Metrics
from sharegroup.log_fields import LogFields
from sharegroup.member.acknowledgement_round import AcknowledgementRound, uniform_batches
from sharegroup.member.batch_calls import PendingAcknowledge, PendingBegin
from sharegroup.member.fetch_demands import FetchDemands, ranges_from_response
from sharegroup.member.held_batches import HeldBatches, Offers
from sharegroup.member.membership import Membership
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch
from sharegroup.member.subscription import Subscription
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import (
    MAX_RANGES_PER_ROW,
    AcknowledgeRequest,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
    split_into_rows,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

logger = logging.getLogger(__name__)

METADATA_INTERVAL_MS = 30_000
#: The metadata interval, in ms, while a subscribed topic does not exist, and after a sign that a topic has changed.
MISSING_TOPIC_INTERVAL_MS = 1_000
#: A batch counts as no longer held this many ms before its locks end. The time is needed because a sink checks only
#: once per second whether its batch is held, and commits afterwards.
COMMIT_MS = 2_000
#: The member holds records for up to this many batches in addition to the running one.
READ_AHEAD = 2
#: How long acknowledgements may wait at the job, in ms. A fetch request follows when the next batch begins, and one
#: micro-batch can then handle both.
LINGER_MS = 500
#: Maximum number of requests whose response times are measured at the same time. Older requests are dropped.
_MAX_AWAITED = 1_000
#: Metrics about bytes. The member cannot measure them, because Spark's readers read the records.
_NOT_MEASURED = ("fetch-size-avg", "fetch-size-max", "bytes-consumed-rate", "bytes-consumed-total")

Request = ShareGroupRequest | SharePartitionRequest


class MemberSettings(NamedTuple):
    """The settings of a member: its identity, its initial subscription and its limits.

    Attributes:
        topics: the names of the topics to subscribe to at first, unless `pattern` is set.
        max_records: the maximum number of records in a batch.
        acknowledge_timeout_ms: how long a batch waits for responses of the job.
        max_processing_ms: how long the locks of a batch are renewed, counted from the start of the batch.
        leave_timeout_ms: how long a closing member waits for its last responses.
        group_instance_id: the name of a static member; None for other members.
        pattern: a regular expression. The member then subscribes to all topics whose names match it.
    """

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
    group_instance_id: str | None = None
    pattern: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether the member is static, so that its next process continues with its ranges (KIP-345)."""
        return self.group_instance_id is not None


def has_renewal(requests: Iterable[Request]) -> bool:
    """Return whether the requests contain a renewal, which must be appended before its locks count as renewed."""
    return any(isinstance(request, AcknowledgeRequest) and request.is_renew_ack for request in requests)


class MemberLogic:
    """The logic of a member: it decides which requests the member sends and which batches it offers.

    Attributes:
        incarnation: identifies this process of the member. The ids of its requests begin with it.
        failure: the error that ended the membership permanently, if any.
        redelivered: the number of ranges that were acknowledged too late. Their records are delivered again.
    """

    def __init__(self, settings: MemberSettings, offers: Offers, incarnation: str) -> None:
        self.settings, self.incarnation = settings, incarnation
        self.subscription = Subscription(settings.topics, settings.pattern)
        self.failure: Exception | None = None
        self.redelivered = 0
        self.metrics = ConsumerMetrics()
        self._sent_ms: OrderedDict[str, int] = OrderedDict()
        self._finished_ms: int | None = None
        self.is_open = False
        self.acknowledgements: AcknowledgementRound | None = None
        self.renewal: AcknowledgementRound | None = None
        self._ids = map(f"{incarnation}-{{}}".format, itertools.count())
        self._membership = Membership(
            settings.group_id, settings.member_id, settings.topics, settings.client_id, settings.client_host, self._ids,
            incarnation, settings.group_instance_id,
        )  # fmt: skip
        target = READ_AHEAD * settings.max_records
        self._demands = FetchDemands(
            settings.group_id, settings.member_id, target, settings.fetch_max_wait_ms, self._ids, incarnation
        )
        self.holdings = HeldBatches(offers, incarnation, settings.max_records, settings.is_static)
        self._metadata: Mapping[str, TopicMetadata] = {}
        self._topic_ids: dict[str, str] = {}
        self._metadata_due_ms = 0
        self._metadata_received_ms = 0
        self._may_fetch = True
        self._closing_until_ms: int | None = None
        self._has_left = self._leaves_permanently = False

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """The assigned topic-partitions; empty until the member has joined."""
        return self._membership.assignment

    @property
    def member_id(self) -> str:
        return self.settings.member_id

    @property
    def acknowledge_timeout_ms(self) -> int:
        """The time for which a batch waits for responses, in milliseconds."""
        return self.settings.acknowledge_timeout_ms

    @property
    def member_epoch(self) -> int:
        """The member epoch for request rows. Before the member has joined, it is -1, which the job does not check."""
        return self._membership.member_epoch if self._membership.has_joined else -1

    def is_over(self, now_ms: int) -> bool:
        """Return whether a closing member has left the group, has failed, or has exceeded `leave_timeout_ms`."""
        until_ms = self._closing_until_ms
        return until_ms is not None and (self._membership.left or self.failure is not None or now_ms > until_ms)

    def holds_batch(self, now_ms: int) -> bool:
        """Return whether all locks of the running batch last for at least another COMMIT_MS.

        If so, no other member can acquire the batch's records during this time. After a failure the result is False,
        because it is possible that another process of the same member has the records.
        """
        running = self.holdings.running
        return (
            running is not None
            and self.failure is None
            and running.is_held(self.holdings.brokers_ms(now_ms) + COMMIT_MS)
        )

    # -- the loop --------------------------------------------------------------------------------------------------

    def mark_open(self) -> None:
        """Record that responses can be read, so that requests can be sent."""
        self.is_open = True

    def mark_closed(self) -> None:
        """Record that responses are no longer read and nothing can be sent."""
        self.is_open = False

    def set_brokers_clock(self, ahead_ms: int) -> None:
        """Set how far the brokers' clocks are ahead of the member's clock."""
        self.holdings.ahead_ms = ahead_ms

    def metadata_is_due(self, now_ms: int) -> bool:
        """Return whether the metadata of the subscribed topics is due to be fetched."""
        return now_ms >= self._metadata_due_ms

    def handle_metadata(self, found: Mapping[str, TopicMetadata], now_ms: int) -> None:
        """Apply the metadata of the subscribed topics. `found` contains only topics that exist."""
        if found != self._metadata:
            self._membership.schedule_now(now_ms)
        self._metadata, self._metadata_received_ms = found, now_ms
        names = self.subscription.topics if self.subscription.pattern is None else tuple(sorted(found))
        self._membership.subscribe(names, now_ms)
        missing = [name for name in names if name not in found]
        if missing:
            logger.info("some subscribed topics do not exist yet: %(topic)s", LogFields(topic=", ".join(missing)))
        self._metadata_due_ms = now_ms + (MISSING_TOPIC_INTERVAL_MS if missing else METADATA_INTERVAL_MS)

    def subscribe(self, subscription: Subscription) -> None:
        """Change the subscription. The change takes effect after the next metadata request and heartbeat."""
        self.subscription = subscription
        self._metadata_due_ms = 0

    def step(self, responses: Iterable[Response], now_ms: int) -> list[Request]:
        """Apply responses. Return the requests to send now, in the order in which they must be appended."""
        requests = [request for response in responses for request in self._handle(response, now_ms)]
        requests += self._due(now_ms)
        self._note_sent(requests, now_ms)
        self.failure = self.failure or self._membership.fatal
        return requests

    def _note_sent(self, requests: Sequence[Request], now_ms: int) -> None:
        for request in requests:
            if isinstance(request, HeartbeatRequest | FetchRequest):
                self._sent_ms[request.id] = now_ms
                if len(self._sent_ms) > _MAX_AWAITED:
                    self._sent_ms.popitem(last=False)

    def mark_appended(self, requests: Sequence[Request], now_ms: int) -> None:
        """Record that the broker has appended these requests to the request topics."""
        is_current = self.renewal is not None and any(self.renewal.awaits(request.id) for request in requests)
        if is_current and self.holdings.running is not None:
            self.holdings.running.mark_renewal_appended(self.holdings.brokers_ms(now_ms))

    def stop_offering(self, now_ms: int) -> None:
        """Stop offering batches and fetching records. The running batch continues."""
        self._may_fetch = False
        self.holdings.stop_offering(now_ms)

    def close(self, now_ms: int, leave_group: bool = False) -> None:
        """Begin to close the member.

        Later steps wait for the last responses, give unused ranges back to the job, and leave the group. After that,
        `is_over` returns True. A static member stays in the group for its next process, unless `leave_group` is True
        (KIP-1092).
        """
        self.stop_offering(now_ms)
        self._leaves_permanently = leave_group
        self._closing_until_ms = now_ms + self.settings.leave_timeout_ms

    # -- the running batch -----------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch, now_ms: int) -> PendingBegin:
        """Begin a batch. `poll` of the returned object returns the ranges of the batch that the member still holds.

        If this process offered the batch, these are all its ranges, except ranges of deleted topics. If an earlier
        process offered the batch, its ranges are renewed first. Only the renewed ranges are then returned, because the
        others are finished or lost. Each renewed range has its current delivery count, which is higher if this process
        has acquired the range again.
        """
        if batch.incarnation == self.incarnation:
            self.holdings.check_claim(now_ms)
            return PendingBegin(self, batch, None, now_ms)
        logger.info(
            "batch %(batch)d of an earlier process runs again after its %(count)d ranges are renewed",
            LogFields(batch=batch.seq, count=len(batch.ranges)),
        )
        self.holdings.keep_for_rerun(batch.ranges)
        self.renewal = self._renewal_of(batch.ranges, granted=())  # all of them that are held now
        return PendingBegin(self, batch, self.renewal, now_ms)

    def acknowledge(
        self,
        batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]],
        granted: Sequence[HeldRange],
        now_ms: int,
    ) -> PendingAcknowledge:
        """Begin to acknowledge the running batch. The caller then does the steps that `PendingAcknowledge` describes.

        The acknowledgements apply only to `granted`, the acquired ranges of the batch. They take effect when they are
        appended, so the batch must not end earlier. The responses only show whether the acknowledgements were too late.
        The acknowledgement of the next batch, and the closing of the member, wait for these responses.
        """
        records = sum(batch.last_offset - batch.first_offset + 1 for b in batches.values() for batch in b)
        self.metrics.acknowledged.record(records, now_ms)
        linger_ms = (
            LINGER_MS if self._may_fetch and self._demands.is_quarter_of_target(self.holdings.offered_records) else 0
        )
        following = AcknowledgementRound(
            self.settings.group_id, self.settings.member_id, batches, granted, self._ids,
            incarnation=self.incarnation, linger_ms=linger_ms,
        )  # fmt: skip
        return PendingAcknowledge(self, following, self.acknowledgements, now_ms)

    def finish(self, seq: int, now_ms: int) -> None:
        """End the batch after its acknowledgement."""
        self._finished_ms = now_ms
        self.holdings.finish(seq)

    # -- metrics ---------------------------------------------------------------------------------------------------

    def count_batch(self, records: int, now_ms: int) -> None:
        """Record in the metrics that a batch of `records` records has begun. It counts as one poll."""
        self.metrics.poll_began(now_ms)
        if self._finished_ms is not None:
            self.metrics.poll_idle.record(now_ms - self._finished_ms, now_ms)
            self._finished_ms = None
        self.metrics.fetched_records.record(records, now_ms)

    def metric_values(self, now_ms: int) -> Metrics:
        """Return the metrics, except those about bytes, as {group of metrics: {metric: value}}, with Kafka's names."""
        values = self.metrics.values(now_ms)
        for name in _NOT_MEASURED:
            del values[FETCH_MANAGER][name]
        return values

    # -- internals -------------------------------------------------------------------------------------------------

    def _handle(self, response: Response, now_ms: int) -> list[Request]:
        match response:
            case HeartbeatResponse():
                if (sent_ms := self._sent_ms.pop(response.id, None)) is not None:
                    self.metrics.heartbeat_answered(now_ms - sent_ms, now_ms)
                self._handle_heartbeat(response, now_ms)
            case AcknowledgeResponse():
                self._handle_acknowledgement(response, now_ms)
            case FetchResponse() if not response.id.startswith(self.incarnation):
                return self._release_unknown(response)
            case FetchResponse() if self._demands.is_awaited(response):
                self._check_deleted(response, now_ms)
                if (sent_ms := self._sent_ms.pop(response.id, None)) is not None:
                    self.metrics.fetch_latency.record(now_ms - sent_ms, now_ms)
                acquired = self._demands.handle_response(response, now_ms)
                self.holdings.delivery_count_limit = response.delivery_count_limit or self.holdings.delivery_count_limit
                self.holdings.add([held for held in acquired if not self._is_replaced(held.share_partition)], now_ms)
        return []

    def _handle_acknowledgement(self, response: AcknowledgeResponse, now_ms: int) -> None:
        for waiting in (self.acknowledgements, self.renewal):
            if waiting is not None and waiting.handle_response(response, now_ms):
                self._check_deleted(response, now_ms)
                self._complete(waiting, now_ms)
                return

    def _handle_heartbeat(self, response: HeartbeatResponse, now_ms: int) -> None:
        before = self.assignment
        if self._membership.handle_response(response, now_ms):
            self._demands.discard_all()
            self.holdings.discard_all(now_ms)
        if self.assignment != before:
            self.metrics.rebalances.record(1, now_ms)
            self._topic_ids = {share_partition.topic: share_partition.topic_id for share_partition in self.assignment}
            self._refresh_metadata_soon()
            self.holdings.discard_deleted(self._is_replaced, now_ms)

    def _is_replaced(self, share_partition: AssignedPartition) -> bool:
        """Return whether the assignment contains a newer topic with the same name but another id."""
        return self._topic_ids.get(share_partition.topic, share_partition.topic_id) != share_partition.topic_id

    def _check_deleted(self, response: FetchResponse | AcknowledgeResponse, now_ms: int) -> None:
        """If the response reports that the topic was deleted, discard the ranges of the response's share-partition.

        The metadata is then also refreshed soon.
        """
        if response.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            gone = AssignedPartition(response.topic, response.topic_id, response.partition)
            self._refresh_metadata_soon()
            self.holdings.discard_deleted(lambda share_partition: share_partition == gone, now_ms)

    def _refresh_metadata_soon(self) -> None:
        soon_ms = self._metadata_received_ms + MISSING_TOPIC_INTERVAL_MS
        self._metadata_due_ms = min(self._metadata_due_ms, soon_ms)

    def _complete(self, completed: AcknowledgementRound, now_ms: int) -> None:
        if not completed.is_done:
            return
        if completed is self.acknowledgements:
            self.acknowledgements = None
            self.redelivered += len(completed.rejected)
            self.metrics.acknowledge_errors.record(completed.failed_records, now_ms)
            if completed.rejected:
                logger.warning(
                    "%(count)d ranges were acknowledged too late, so their records are delivered again",
                    LogFields(count=len(completed.rejected)),
                )
            return
        self.renewal = None
        running = self.holdings.running
        if running is None:
            return
        if completed.not_allowed:
            running.renewable.clear()
            running.is_renewing = False
            logger.warning("the group does not allow renewals, so the batch must end before its locks expire")
            return
        running.record_locks(completed.renewed_parts(running.ranges))
        renewed, brokers_ms = completed.renewed_parts(running.renewable), self.holdings.brokers_ms(now_ms)
        missing = running.apply_renewal(renewed, bool(completed.rejected), brokers_ms)
        if missing:
            logger.warning(
                "batch %(batch)d: the locks of %(records)d records could not be renewed",
                LogFields(batch=running.seq, records=missing),
            )

    def _release_unknown(self, response: FetchResponse) -> list[Request]:
        """Return requests that release the records of a response to an earlier process of this member.

        That process may have handled the records, so they are delivered again with a higher delivery count. Ranges that
        overlap a range which this process holds are not released.
        """
        found = [held for held in ranges_from_response(response) if not self.holdings.overlaps(held)]
        return [
            AcknowledgeRequest(
                *self._header(ranges),
                batches=tuple(released),
                acquired=_acquired_ranges(ranges),
                lock_deadline_ms=response.lock_deadline_ms,
            )
            for ranges in split_into_rows(found, MAX_RANGES_PER_ROW)
            for released in uniform_batches(ranges, AcknowledgeType.RELEASE).values()
        ]

    def _due(self, now_ms: int) -> list[Request]:
        requests: list[Request] = []
        has_topics = bool(self._metadata) or self._membership.has_joined
        heartbeat = self._membership.heartbeat(self._metadata, now_ms) if has_topics else None
        if heartbeat is not None:
            requests.append(heartbeat)
        requests += self._unacquire(self.holdings.step(now_ms))
        if self._may_fetch and self._membership.has_joined and not self.holdings.is_stalled:
            requests += self._demands.due_requests(
                self.assignment, self.holdings.waiting_records, self.member_epoch, now_ms
            )
        self._renew(now_ms)
        for waiting in (self.acknowledgements, self.renewal):
            requests += waiting.due_requests(self.member_epoch, now_ms) if waiting is not None else []
        if self._closing_until_ms is not None and self.acknowledgements is None and not self._has_left:
            self._has_left = True
            requests += self._unacquire(self.holdings.remove_all(now_ms))
            leaving = self._membership.leave(self._leaves_permanently)
            requests += [] if leaving is None else [leaving]
        return requests

    def _renew(self, now_ms: int) -> None:
        running = self.holdings.running
        if running is None or not running.renewable:
            return
        if now_ms - running.began_ms >= self.settings.max_processing_ms:
            running.stop_renewing()
            logger.warning(
                "batch %(batch)d exceeded max_processing_ms (%(limit)d): its locks are no longer renewed, and its "
                "records are delivered to other members",
                LogFields(batch=running.seq, limit=self.settings.max_processing_ms),
            )
        elif self.holdings.brokers_ms(now_ms) >= running.renew_at_ms and self.renewal is None:
            self.renewal = self._renewal_of(running.renewable, running.renewable)

    def _renewal_of(self, ranges: Collection[HeldRange], granted: Collection[HeldRange]) -> AcknowledgementRound:
        return AcknowledgementRound(
            self.settings.group_id, self.settings.member_id, uniform_batches(ranges, AcknowledgeType.RENEW), granted,
            self._ids, is_renewal=True, is_static=self.settings.is_static, incarnation=self.incarnation,
        )  # fmt: skip

    def _unacquire(self, ranges: Iterable[HeldRange]) -> list[Request]:
        by_share_partition: dict[AssignedPartition, list[HeldRange]] = {}
        for held in sorted(ranges):
            by_share_partition.setdefault(held.share_partition, []).append(held)
        return [
            UnacquireRequest(*self._header(found), acquired=_acquired_ranges(found))
            for listed in by_share_partition.values()
            for found in split_into_rows(listed, MAX_RANGES_PER_ROW)
        ]

    def _header(self, ranges: Sequence[HeldRange]) -> tuple[str, str, str, str, int, str, int, str, str]:
        """Return the first fields of a request for ranges of one share-partition.

        `reply_to` is set although the member does not wait for the response, because the job logs a warning for each
        rejected request without `reply_to`.
        """
        member_id = self.settings.member_id
        owner = self.settings.group_id, *ranges[0].share_partition, member_id, self.member_epoch, member_id
        return next(self._ids), *owner, self.incarnation


def _acquired_ranges(ranges: Iterable[HeldRange]) -> tuple[AcquiredRange, ...]:
    return tuple(held.acquired_range for held in ranges)
