"""What a member of a share group does, without threads, clock and channel: `now_ms` and responses in, requests out.

Who drives it repeats, in this order, from when `opened` was called (responses can be read):

    if logic.metadata_is_due(now_ms):
        logic.take_metadata(topics, now_ms)         # of `topics`
    requests = logic.step(responses, now_ms)        # append them; durably, if `renews` says so
    logic.appended(requests, now_ms)                # only then

until `is_over`. `now_ms` is of a clock that nobody sets; `set_brokers_clock` takes in how far the brokers' clocks, by
which locks end, are ahead of it.

Besides, for each batch that the source has claimed: `begin`, `acknowledge`, `finish`. The first two take as long as
answers do, so they return an object to be polled (`batch_calls`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.member.acknowledgement_round import AcknowledgementRound, uniform
from sharegroup.member.batch_calls import Acknowledging, Beginning
from sharegroup.member.fetch_demands import FetchDemands, ranges_of
from sharegroup.member.held_batches import HeldBatches, Offers
from sharegroup.member.membership import Membership
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch
from sharegroup.member.subscription import Subscription
from sharegroup.monitoring.metrics.member_counts import MemberCounts
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import (
    MAX_RANGES_PER_ROW,
    AcknowledgeRequest,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
    in_rows,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

logger = logging.getLogger(__name__)

METADATA_INTERVAL_MS = 30_000
#: While a subscribed topic does not exist yet, and when there is a sign that one is not what it was.
MISSING_TOPIC_INTERVAL_MS = 1_000
#: Who asks whether a batch is held does so each second, and commits then: it is held no more so long before its locks
#: end.
COMMIT_MS = 2_000
#: The member holds up to this many batches ahead of the running one.
READ_AHEAD = 2
#: How long acknowledgements wait at the job for the demand that follows them when the next batch begins, so that one
#: micro-batch takes both in.
LINGER_MS = 500

Request = ShareGroupRequest | SharePartitionRequest


class MemberSettings(NamedTuple):
    """Who the member is and how much it takes; times in milliseconds. `group_instance_id` is a static member's name.

    It begins with `topics`, or with those that match the `pattern`; `MemberLogic.subscribe` changes that.
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
        """Whether the next process of its name goes on with what it holds (KIP-345)."""
        return self.group_instance_id is not None


def renews(requests: Iterable[Request]) -> bool:
    """Whether there is a renewal among them: the locks count on it, so it is not on its way but appended, or not."""
    return any(isinstance(request, AcknowledgeRequest) and request.is_renew_ack for request in requests)


class MemberLogic:
    """Decides what a member sends, and what its batches are. `incarnation` is unique to this process of the member; ids
    of its requests begin with it.

    `failure` is what ended the membership for good, if anything did; `redelivered` counts ranges whose acknowledgement
    came too late: they were or will be delivered again.
    """

    def __init__(self, settings: MemberSettings, offers: Offers, incarnation: str) -> None:
        self.settings, self.incarnation = settings, incarnation
        self.subscription = Subscription(settings.topics, settings.pattern)
        self.failure: Exception | None = None
        self.redelivered = 0
        self.counts = MemberCounts()
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
        self._metadata_taken_ms = 0
        self._may_ask = True
        self._closing_until_ms: int | None = None
        self._has_left = self._leaves_for_good = False

    # -- what can be seen ------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[AssignedPartition]:
        """What the member is to fetch from; empty until it has joined."""
        return self._membership.assignment

    @property
    def member_id(self) -> str:
        """The member's id in the group."""
        return self.settings.member_id

    @property
    def acknowledge_timeout_ms(self) -> int:
        """How long a batch waits for answers."""
        return self.settings.acknowledge_timeout_ms

    @property
    def member_epoch(self) -> int:
        """The member's epoch for a request row, -1 (not checked) before it has joined."""
        return self._membership.member_epoch if self._membership.has_joined else -1

    def is_over(self, now_ms: int) -> bool:
        """Whether a closing member has left the group, or cannot."""
        until_ms = self._closing_until_ms
        return until_ms is not None and (self._membership.left or self.failure is not None or now_ms > until_ms)

    def holds_batch(self, now_ms: int) -> bool:
        """Whether the running batch's locks are all held for a moment more: nobody else gets its records meanwhile.

        Nor does another process of the member handle them, which is why a member that has failed holds nothing.
        """
        running = self.holdings.running
        return (
            running is not None
            and self.failure is None
            and running.is_held(self.holdings.brokers_ms(now_ms) + COMMIT_MS)
        )

    # -- the loop --------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Responses can be read: what is asked from now on can be answered."""
        self.is_open = True

    def closed(self) -> None:
        """Responses are read no more, and nothing can be sent."""
        self.is_open = False

    def set_brokers_clock(self, ahead_ms: int) -> None:
        """Take in how far the brokers' clocks are ahead of the member's."""
        self.holdings.ahead_ms = ahead_ms

    def metadata_is_due(self, now_ms: int) -> bool:
        """Whether the subscribed topics are to be looked at."""
        return now_ms >= self._metadata_due_ms

    def take_metadata(self, found: Mapping[str, TopicMetadata], now_ms: int) -> None:
        """Take in what was found of the subscribed topics."""
        if found != self._metadata:
            self._membership.hurry(now_ms)
        self._metadata, self._metadata_taken_ms = found, now_ms
        names = self.subscription.topics if self.subscription.pattern is None else tuple(sorted(found))
        self._membership.subscribe(names, now_ms)
        missing = [name for name in names if name not in found]
        if missing:
            logger.info("subscribed topics that do not exist yet: %s", ", ".join(missing))
        self._metadata_due_ms = now_ms + (MISSING_TOPIC_INTERVAL_MS if missing else METADATA_INTERVAL_MS)

    def subscribe(self, subscription: Subscription) -> None:
        """Read other topics: as soon as these have been looked at, and the coordinator has been told."""
        self.subscription = subscription
        self._metadata_due_ms = 0

    def step(self, responses: Iterable[Response], now_ms: int) -> list[Request]:
        """Take responses in; what is to be sent now, in this order."""
        requests = [request for response in responses for request in self._take(response, now_ms)]
        requests += self._due(now_ms)
        self._count(requests, now_ms)
        self.failure = self.failure or self._membership.fatal
        return requests

    def _count(self, requests: Sequence[Request], now_ms: int) -> None:
        for request in requests:
            match request:
                case HeartbeatRequest():
                    self.counts.heartbeat(request.id, now_ms)
                case FetchRequest():
                    self.counts.fetch(request.id, now_ms)

    def appended(self, requests: Sequence[Request], now_ms: int) -> None:
        """These requests are in the request topics."""
        if renews(requests) and self.holdings.running is not None:
            self.holdings.running.renewal_appended(self.holdings.brokers_ms(now_ms))

    def stop_offering(self, now_ms: int) -> None:
        """Offer no further batch and ask for nothing more; the running batch goes on."""
        self._may_ask = False
        self.holdings.stop_offering(now_ms)

    def close(self, now_ms: int, leave_group: bool = False) -> None:
        """Wait for the last answers, give unused ranges back, leave the group; `is_over` tells when.

        A static member stays in the group for its next process, unless it is to `leave_group` (KIP-1092).
        """
        self.stop_offering(now_ms)
        self._leaves_for_good = leave_group
        self._closing_until_ms = now_ms + self.settings.leave_timeout_ms

    # -- the running batch -----------------------------------------------------------------------------------------

    def begin(self, batch: OfferedBatch, now_ms: int) -> Beginning:
        """The ranges of a batch that are (still) the member's; from now on their locks are renewed.

        A batch that this process offered is taken as it is. One of an earlier process is renewed first: what was not
        renewed is finished or lost, and is left out; the rest has the delivery counts of today, as this process may
        have been granted it once more, after others.
        """
        if batch.incarnation == self.incarnation:
            self.holdings.see_claim(now_ms)
            return Beginning(self, batch, None, now_ms)
        logger.info("batch %d of an earlier run is run again: renewing %d ranges", batch.seq, len(batch.ranges))
        self.holdings.await_run(batch.ranges)
        self.renewal = self._renewal_of(batch.ranges, granted=())  # whatever is held of them now
        return Beginning(self, batch, self.renewal, now_ms)

    def acknowledge(
        self,
        batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]],
        granted: Sequence[HeldRange],
        now_ms: int,
    ) -> Acknowledging:
        """Have acknowledgements appended to the request topic, durably; renewals of the running batch end.

        `granted` are the ranges of the batch: the acknowledgements apply to what was granted so, and to nothing else.

        An acknowledgement counts from its append, so this is what a batch has to wait for. The answers, which say only
        what came too late, are awaited by the next call and by `close`.
        """
        self.counts.acknowledged(
            sum(batch.last_offset - batch.first_offset + 1 for b in batches.values() for batch in b)
        )
        linger_ms = LINGER_MS if self._may_ask and self._demands.would_follow(self.holdings.offered_records) else 0
        following = AcknowledgementRound(
            self.settings.group_id, self.settings.member_id, batches, granted, self._ids,
            incarnation=self.incarnation, linger_ms=linger_ms,
        )  # fmt: skip
        return Acknowledging(self, following, self.acknowledgements, now_ms)

    def finish(self, seq: int) -> None:
        """The batch is acknowledged."""
        self.holdings.finish(seq)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _take(self, response: Response, now_ms: int) -> list[Request]:
        match response:
            case HeartbeatResponse():
                self.counts.heartbeat_answered(response.id, now_ms)
                self._take_heartbeat(response, now_ms)
            case AcknowledgeResponse():
                self._take_acknowledged(response, now_ms)
            case FetchResponse() if not response.id.startswith(self.incarnation):
                return self._release_foreign(response)
            case FetchResponse() if self._demands.awaits(response):
                self._see_gone(response, now_ms)
                self.counts.fetch_answered(response.id, now_ms)
                granted = self._demands.take(response, now_ms)
                self.holdings.delivery_count_limit = response.delivery_count_limit or self.holdings.delivery_count_limit
                self.holdings.add([held for held in granted if not self._is_replaced(held.share_partition)], now_ms)
        return []

    def _take_acknowledged(self, response: AcknowledgeResponse, now_ms: int) -> None:
        for waiting in (self.acknowledgements, self.renewal):
            if waiting is not None and waiting.take(response, now_ms):
                self._see_gone(response, now_ms)
                self._settle(waiting, now_ms)
                return

    def _take_heartbeat(self, response: HeartbeatResponse, now_ms: int) -> None:
        before = self.assignment
        if self._membership.take(response, now_ms):
            self._demands.forget()
            self.holdings.forget(now_ms)
        if self.assignment != before:
            self.counts.rebalanced()
            self._topic_ids = {share_partition.topic: share_partition.topic_id for share_partition in self.assignment}
            self._look_at_topics_soon()
            self.holdings.forget_gone(self._is_replaced, now_ms)

    def _is_replaced(self, share_partition: AssignedPartition) -> bool:
        """Whether the name belongs to another topic now."""
        return self._topic_ids.get(share_partition.topic, share_partition.topic_id) != share_partition.topic_id

    def _see_gone(self, response: FetchResponse | AcknowledgeResponse, now_ms: int) -> None:
        """The job does not lead what it was asked for: its topic is no more, and one of its name is another."""
        if response.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            gone = AssignedPartition(response.topic, response.topic_id, response.partition)
            self._look_at_topics_soon()
            self.holdings.forget_gone(lambda share_partition: share_partition == gone, now_ms)

    def _look_at_topics_soon(self) -> None:
        soon_ms = self._metadata_taken_ms + MISSING_TOPIC_INTERVAL_MS
        self._metadata_due_ms = min(self._metadata_due_ms, soon_ms)

    def _settle(self, answered: AcknowledgementRound, now_ms: int) -> None:
        if not answered.is_done:
            return
        if answered is self.acknowledgements:
            self.acknowledgements = None
            self.redelivered += len(answered.refused)
            self.counts.failed(answered.failed_records)
            if answered.refused:
                logger.warning("%d ranges were acknowledged too late, and are redelivered", len(answered.refused))
            return
        self.renewal = None
        running = self.holdings.running
        if running is None:
            return
        if answered.not_allowed:
            running.renewable.clear()
            running.is_renewing = False
            logger.warning("the group does not allow renewals: a batch must end before its locks do")
            return
        running.take_locks(answered.renewed(running.ranges))
        renewed, brokers_ms = answered.renewed(running.renewable), self.holdings.brokers_ms(now_ms)
        missing = running.take_renewal(renewed, bool(answered.refused), brokers_ms)
        if missing:
            logger.warning("the locks of %d records of the running batch could not be renewed", missing)

    def _release_foreign(self, response: FetchResponse) -> list[Request]:
        """A fetch of an earlier process of this member was granted: to be delivered again, visibly a second time."""
        found = [held for held in ranges_of(response) if not self.holdings.has(held)]
        return [
            AcknowledgeRequest(
                *self._named(ranges),
                batches=tuple(released),
                acquired=_grants(ranges),
                lock_deadline_ms=response.lock_deadline_ms,
            )
            for ranges in in_rows(found, MAX_RANGES_PER_ROW)
            for released in uniform(ranges, AcknowledgeType.RELEASE).values()
        ]

    def _due(self, now_ms: int) -> list[Request]:
        requests: list[Request] = []
        has_topics = bool(self._metadata) or self._membership.has_joined
        heartbeat = self._membership.heartbeat(self._metadata, now_ms) if has_topics else None
        if heartbeat is not None:
            requests.append(heartbeat)
        requests += self._unacquire(self.holdings.step(now_ms))
        if self._may_ask and self._membership.has_joined and not self.holdings.is_stalled:
            requests += self._demands.due(self.assignment, self.holdings.waiting_records, self.member_epoch, now_ms)
        self._renew(now_ms)
        for waiting in (self.acknowledgements, self.renewal):
            requests += waiting.due(self.member_epoch, now_ms) if waiting is not None else []
        if self._closing_until_ms is not None and self.acknowledgements is None and not self._has_left:
            self._has_left = True
            requests += self._unacquire(self.holdings.give_all_back(now_ms))
            leaving = self._membership.leave(self._leaves_for_good)
            requests += [] if leaving is None else [leaving]
        return requests

    def _renew(self, now_ms: int) -> None:
        running = self.holdings.running
        if running is None or not running.renewable:
            return
        if now_ms - running.began_ms >= self.settings.max_processing_ms:
            running.give_up()
            logger.warning(
                "batch %d has run for max_processing_ms (%d): its locks are renewed no more, its records go to others",
                running.seq, self.settings.max_processing_ms,
            )  # fmt: skip
        elif self.holdings.brokers_ms(now_ms) >= running.renew_at_ms and self.renewal is None:
            self.renewal = self._renewal_of(running.renewable, running.renewable)

    def _renewal_of(self, ranges: Collection[HeldRange], granted: Collection[HeldRange]) -> AcknowledgementRound:
        return AcknowledgementRound(
            self.settings.group_id, self.settings.member_id, uniform(ranges, AcknowledgeType.RENEW), granted, self._ids,
            is_renewal=True, is_static=self.settings.is_static, incarnation=self.incarnation,
        )  # fmt: skip

    def _unacquire(self, ranges: Iterable[HeldRange]) -> list[Request]:
        by_share_partition: dict[AssignedPartition, list[HeldRange]] = {}
        for held in sorted(ranges):
            by_share_partition.setdefault(held.share_partition, []).append(held)
        return [
            UnacquireRequest(*self._named(found), acquired=_grants(found))
            for listed in by_share_partition.values()
            for found in in_rows(listed, MAX_RANGES_PER_ROW)
        ]

    def _named(self, ranges: Sequence[HeldRange]) -> tuple[str, str, str, str, int, str, int, str, str]:
        """What a request begins with that is about ranges of one share-partition, and whose answer nobody waits for.

        The answer is asked for, because the job logs refusals that it cannot tell.
        """
        member_id = self.settings.member_id
        who = self.settings.group_id, *ranges[0].share_partition, member_id, self.member_epoch, member_id
        return next(self._ids), *who, self.incarnation


def _grants(ranges: Iterable[HeldRange]) -> tuple[AcquiredRange, ...]:
    return tuple(held.grant for held in ranges)
