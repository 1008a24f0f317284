"""The logic of a share consumer, without I/O. It combines membership, share sessions and the consumer's records.

The host (`AsyncShareConsumer`) sends the requests. Two threads may use the core at the same time: while one thread
applies a fetch response, the application's thread may acknowledge or decode records of earlier responses.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.client.core.acknowledgements import AcknowledgeResult, Types
from sharegroup.client.core.fetched_records import FetchedRecords, delivery_of
from sharegroup.client.core.in_hand import InHand
from sharegroup.client.core.membership import Membership
from sharegroup.client.core.share_node import FetchAnswer, FetchLimits, ShareNode
from sharegroup.client.decoding import Decoded, RecordDecoder
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import CommitResults, Delivery, Possession, Record, TopicIdPartition, UndecodableRecord
from sharegroup.client.settings import ConsumerSettings
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.consumer_metrics import ConsumerMetrics
from sharegroup.log_fields import LogFields
from sharegroup.types import AcknowledgeType, AcquiredRange

logger = logging.getLogger(__name__)

#: Errors of a partition after which the leader must be looked up again.
STALE_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
#: Errors of a partition or of a whole fetch that the next poll raises. After any other error, the fetch is repeated.
RAISED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST)
#: Records are fetched before the next poll only if the previous records were processed within 1/4 of the lock duration.
#: The new records then wait for up to 1/4 and are processed for up to 1/4, so half of the lock duration is left.
_AHEAD_LOCK_DIVISOR = 4
#: Maximum number of undecodable records that are kept for the application.
_UNDECODABLE_KEPT = 1_000

#: A function that receives a topic id, a partition, and the node id of the partition's new leader.
NoteLeader = Callable[[UUID, int, int], None]


class Arrived(NamedTuple):
    """Fetched records of one partition that are not decoded yet. `part` is the partition's entry in the response."""

    delivery: Delivery
    part: Any


class ConsumerCore:
    """The state of one share consumer.

    Attributes:
        fetched: decoded records that the application has not received yet.
        undecodable: the last records that could not be decoded, with the reasons.
        lock_timeout_ms: the acquisition lock timeout in the last response with records; None before that.
    """

    def __init__(self, settings: ConsumerSettings, member_id: str, now_ms: int) -> None:
        self._settings, self._member_id = settings, member_id
        self.membership = Membership(
            settings.group_id,
            member_id,
            settings.client_rack,
            settings.retry_backoff_ms,
            settings.max_poll_interval_ms,
        )
        self.in_hand = InHand()
        self.nodes: dict[int, ShareNode] = {}
        self.fetched = FetchedRecords()
        self._arrived: list[Arrived] = []
        self.undecodable: deque[UndecodableRecord] = deque(maxlen=_UNDECODABLE_KEPT)
        self.lock_timeout_ms: int | None = None
        self.limits = FetchLimits(
            settings.fetch_max_wait_ms,
            settings.fetch_min_bytes,
            settings.fetch_max_bytes,
            settings.max_poll_records,
            settings.is_record_limit,
        )
        self.metrics = ConsumerMetrics(now_ms)
        self._decoder = RecordDecoder(settings)
        self._problems: dict[tuple[ErrorCode, str], RequestError] = {}
        self._last_node_id = -1
        #: `_delivered_ms` is the time at which the application received the current records; None after its next poll.
        #: `_processing_ms` is how long the application processed the previous records.
        self._delivered_ms: int | None = None
        self._processing_ms: int | None = None
        #: The assignment generation and the subscription for which `_drop_lost` last released records.
        self._kept_for = (0, self.membership.topics)

    # -- the application -----------------------------------------------------------------------------------------------

    def begin_poll(self, now_ms: int) -> None:
        """Record that a poll begins, and queue the acknowledgements for the records of the previous poll.

        Raises IllegalStateError if there is no subscription. In explicit mode, it is also raised if a record of the
        previous poll is not acknowledged. This second check does not apply to handler loops.
        """
        if not self.membership.topics:
            raise IllegalStateError("Consumer is not subscribed to any topics.")
        must_be_done = self._settings.is_explicit and not self.in_hand.keeps_renewed
        if must_be_done and self.in_hand.unacknowledged:
            raise IllegalStateError("All records must be acknowledged in explicit acknowledgement mode.")
        self.membership.note_poll(now_ms)
        self.metrics.poll_began(now_ms)
        if self._delivered_ms is not None:
            self._processing_ms, self._delivered_ms = now_ms - self._delivered_ms, None
        self.queue_acknowledgements(now_ms + self._settings.default_api_timeout_ms)

    def begin_handling(self) -> ConsumerSettings:
        """Switch to explicit mode for a handler loop, which polls while it holds records. Return the new settings.

        From now on, polls do not require that earlier records are acknowledged, and never return renewed records.
        """
        self._settings = dataclasses.replace(self._settings, share_acknowledgement_mode="explicit")
        self.in_hand.keeps_renewed = True
        return self._settings

    def limit_fetches(self, records: int, size: int) -> None:
        """Limit the next fetches to `records` records and `size` bytes. The limits of the settings still apply."""
        self.limits = self.limits._replace(
            max_records=min(self._settings.max_poll_records, records),
            max_bytes=min(self._settings.fetch_max_bytes, size),
        )

    def check_explicit(self) -> None:
        """Raise IllegalStateError in implicit mode, where the application does not acknowledge records itself."""
        if not self._settings.is_explicit:
            raise IllegalStateError("Implicit acknowledgement of delivery is being used.")

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType) -> None:
        """Set how a delivered record is acknowledged.

        Raises IllegalStateError in implicit mode, or if the record is not in hand or cannot be acknowledged as `kind`.
        """
        self.check_explicit()
        self.in_hand.acknowledge(record, kind)

    def queue_acknowledgements(self, deadline_ms: int) -> None:
        """Queue the acknowledgements of delivered records for their leaders. In implicit mode, accept these records.

        After a retriable error, the acknowledgements are sent again until `deadline_ms`.
        """
        if not self._settings.is_explicit:
            self.in_hand.accept_all()
        for node_id, source, types in self.in_hand.take():
            self.node(node_id).add(source, types, deadline_ms)

    @property
    def has_records(self) -> bool:
        """Whether there are fetched records, decoded or not, that the application has not received."""
        return bool(self.fetched or self._arrived)

    def take_arrived(self) -> list[Arrived]:
        """Remove and return the fetched records that are not decoded. Their leaders may then be fetched from again."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def put_back(self, arrived: list[Arrived]) -> None:
        """Store undecoded records again for the next poll, because the current poll was cancelled."""
        self._arrived = arrived + self._arrived

    def decode(self, arrived: Iterable[Arrived]) -> list[tuple[Delivery, Decoded]]:
        """Return (delivery, decoded records) for each entry of `arrived`, after applying the deserializers.

        Changes no state, so any thread may call it.
        """
        return [
            (delivery, self._decoder.decode(part.records or b"", _acquired_ranges(part), delivery))
            for delivery, part in arrived
        ]

    def add_decoded(self, decoded: Iterable[tuple[Delivery, Decoded]], now_ms: int) -> None:
        """Store decoded records for delivery. Acknowledge gaps and records that could not be decoded.

        Records whose locks may have ended are dropped without an acknowledgement.
        """
        for delivery, found in decoded:
            if not self._has_ended(delivery, now_ms):  # else it is not acknowledged either
                self._add_decoded(delivery, found, now_ms)
        self._drop_lost(now_ms)

    def _drop_lost(self, now_ms: int) -> None:
        """Remove fetched records whose locks may have ended.

        If the assignment or the subscription has changed, also release the records of partitions that are no longer
        part of it.
        """
        self.fetched.remove(lambda delivery: self._has_ended(delivery, now_ms))
        if self._kept_for != (self.membership.generation, self.membership.topics):
            self._kept_for = (self.membership.generation, self.membership.topics)
            self._release(self.fetched.remove(self._is_of_others), now_ms)

    def _release(self, records: Iterable[Record[Any]], now_ms: int) -> None:
        """Release records that the application has not used."""
        for delivery, run in groupby(records, delivery_of):
            types = {record.offset: AcknowledgeType.RELEASE for record in run}
            self._add(delivery, types, now_ms, is_unused=True)

    def give_back(self, records: Iterable[Record[Any]], now_ms: int) -> None:
        """Release records that the application has not used. Records that are no longer held are skipped."""
        held = [record for record in records if self.in_hand.possession(record) is Possession.HELD]
        for record in held:
            self.in_hand.remove(record)
        self._release(held, now_ms)

    def release_unpolled(self, now_ms: int) -> None:
        """Release all fetched records, because no poll will return them. Call it again if further records arrive."""
        for delivery, part in self.take_arrived():
            if not self._has_ended(delivery, now_ms):
                offsets = (offset for first, last, _ in _acquired_ranges(part) for offset in range(first, last + 1))
                self._add(delivery, dict.fromkeys(offsets, AcknowledgeType.RELEASE), now_ms, is_unused=True)
        self._drop_lost(now_ms)
        self._release(self.fetched.pop(len(self.fetched)), now_ms)

    def _add(self, delivery: Delivery, types: Types, now_ms: int, is_unused: bool = False) -> None:
        """Queue acknowledgements of records that the application does not receive."""
        deadline_ms = now_ms + self._settings.default_api_timeout_ms
        self.node(delivery.node_id).add(delivery.source, types, deadline_ms, is_unused)

    def deliver(self, now_ms: int) -> list[Record[Any]]:
        """Return the fetched records for a poll, in record_limit mode at most `max_poll_records`.

        From now on, the application holds these records.
        """
        limit = self._settings.max_poll_records if self._settings.is_record_limit else len(self.fetched)
        records = self.fetched.pop(limit)
        self.in_hand.deliver(records)
        if records:
            self._delivered_ms = now_ms
        return records

    def begin_iteration(self, now_ms: int) -> None:
        """Make the records that are already fetched available to `deliver_one`."""
        self.fetched.poll_all()
        self._delivered_ms = now_ms

    def deliver_one(self, now_ms: int) -> Record[Any] | None:
        """Return the next fetched record, now held by the application; None if the consumer's iterator must poll.

        Records whose locks may have ended are dropped.
        """
        while (record := self.fetched.pop_polled()) is not None:
            if not self._has_ended(record.delivery, now_ms):
                self.in_hand.deliver((record,))
                return record
        return None

    def _has_ended(self, delivery: Delivery, now_ms: int) -> bool:
        """Return whether the locks of these records may have expired, or have ended with the share session."""
        if delivery.session != self.node(delivery.node_id).session:
            return True
        return delivery.lock_until_ms is not None and now_ms >= delivery.lock_until_ms

    def _is_of_others(self, delivery: Delivery) -> bool:
        """Return whether the partition no longer belongs to the member's assignment or subscription.

        If the member has no assignment at all, only the subscription is checked: the member was fenced, but keeps its
        locks, and is assigned partitions again after joining.
        """
        topic_id, partition, topic = delivery.source
        assignment = self.membership.assignment
        is_assigned = not assignment or partition in assignment.get(topic_id, ())
        return topic not in self.membership.topics or not is_assigned

    def take_results(self, now_ms: int) -> list[AcknowledgeResult]:
        """Remove and return the new results of acknowledgements, except results that concern only gaps.

        Renewed records that the application must receive again are queued for delivery.
        """
        found: list[AcknowledgeResult] = []
        for node in self.nodes.values():
            results, node.results = node.results, []
            for result in results:
                kinds = list(result.types.values())
                records = len(kinds) - kinds.count(AcknowledgeType.GAP)
                self._measure(records, result.error is not None, now_ms)
                self.fetched.add(self.in_hand.on_result(result, now_ms))
                if records:
                    found.append(result)
        return found

    def _measure(self, records: int, is_error: bool, now_ms: int) -> None:
        self.metrics.acknowledged.record(records, now_ms)
        if is_error:
            self.metrics.acknowledge_errors.record(records, now_ms)

    def raise_problem(self) -> None:
        """Raise the next error that the application must handle. Does nothing if there is none."""
        self.membership.raise_problem()
        if self._problems:
            raise self._problems.pop(next(iter(self._problems)))

    def end(self) -> None:
        """Discard all records after the member has left the group. The server releases their locks."""
        self.fetched.clear()
        self._arrived.clear()
        self.in_hand.forget()

    # -- requests ------------------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> Iterator[tuple[UUID, int]]:
        """The assigned partitions, as (topic id, partition)."""
        for topic_id, partitions in self.membership.assignment.items():
            for partition in partitions:
                yield topic_id, partition

    @property
    def is_committing(self) -> bool:
        """Whether the result of any acknowledgement is still missing."""
        return any(node.is_waiting for node in self.nodes.values())

    def node(self, node_id: int) -> ShareNode:
        """Return the `ShareNode` of a broker. It is created if it does not exist."""
        if node_id not in self.nodes:
            self.nodes[node_id] = ShareNode(node_id, self.membership.group_id, self._member_id)
        return self.nodes[node_id]

    def plan_fetches(
        self, leaders: Mapping[TopicIdPartition, int], is_fetching: bool, is_ahead: bool = False
    ) -> list[tuple[ShareNode, list[TopicIdPartition]]]:
        """Return the partitions to fetch from each node. `leaders` is {partition: node id of its leader}.

        If records of a node still wait for a poll, nothing is fetched from this node. The consumer therefore stores at
        most one response per node. `is_fetching` is whether a fetch from any node is in progress. `is_ahead` is True
        for fetches between two polls, which are sent only to nodes that have more records.

        In record_limit mode, records are fetched from one node after another, and only when no fetched record is left.
        A poll therefore never returns more than `max_poll_records`.
        """
        if self.limits.max_records <= 0 or self.limits.max_bytes <= 0:  # a handler loop without room
            return []
        by_node: dict[int, list[TopicIdPartition]] = {}
        for source, node_id in leaders.items():
            by_node.setdefault(node_id, []).append(source)
        if self._settings.is_record_limit:
            if is_fetching or self.fetched.unpolled or self._arrived or not by_node:
                return []
            node_ids = sorted(by_node)
            following = [node_id for node_id in node_ids if node_id > self._last_node_id]
            next_id = (following or node_ids)[0]
            by_node = {next_id: by_node[next_id]}
        full = self.full_node_ids
        plans = [(self.node(node_id), wanted) for node_id, wanted in by_node.items() if node_id not in full]
        plans = [plan for plan in plans if plan[0].has_backlog or not is_ahead]
        if plans:
            self._last_node_id = plans[-1][0].node_id
        return plans

    @property
    def full_node_ids(self) -> set[int]:
        """The ids of the nodes whose fetched records wait for a poll."""
        return self.fetched.unpolled_node_ids | {delivery.node_id for delivery, _ in self._arrived}

    @property
    def is_handling(self) -> bool:
        """Whether a handler loop uses the consumer. Such a loop also polls while it processes records."""
        return self.in_hand.keeps_renewed

    @property
    def may_fetch_ahead(self) -> bool:
        """Whether records may be fetched before the next poll.

        This is allowed if the application processed the previous records within a quarter of the lock duration. If it
        is slower, the locks of the fetched records could expire before the next poll. For a handler loop, it is never
        allowed, because the loop polls while it processes records.
        """
        if self.lock_timeout_ms is None or self._processing_ms is None or self.is_handling:
            return False
        return self._processing_ms * _AHEAD_LOCK_DIVISOR <= self.lock_timeout_ms

    def on_fetch(self, node: ShareNode, answer: FetchAnswer, now_ms: int, note_leader: NoteLeader) -> None:
        """Apply a fetch response: store its records for `decode`, and record its errors and new leaders.

        The lock timeout of the records is assumed to start at `now_ms`.
        """
        if answer.problem is not None:
            if answer.problem.code in RAISED:
                self._problems[answer.problem.code, ""] = answer.problem
            return
        if answer.lock_timeout_ms and answer.records:
            self.lock_timeout_ms = answer.lock_timeout_ms
        until_ms = now_ms + answer.lock_timeout_ms if answer.lock_timeout_ms else None
        for source, code, message, part in answer.partitions:
            if code in STALE_LEADER:
                note_leader(source.topic_id, source.partition, part.current_leader.leader_id)
            elif code in RAISED:
                text = message or f"cannot fetch records of topic {source.topic}"
                self._problems[code, source.topic] = RequestError(code, text)
            if part.acquired_records:
                self._arrived.append(Arrived(Delivery(source, node.node_id, until_ms, self, node.session), part))

    def _add_decoded(self, delivery: Delivery, decoded: Decoded, now_ms: int) -> None:
        if decoded.types:
            self._add(delivery, decoded.types, now_ms)
        for bad in decoded.undecodable:
            place = LogFields(topic=bad[0].topic, partition=bad[0].partition, offset=bad[1], error=bad[2])
            logger.warning("%(topic)s-%(partition)d offset %(offset)d cannot be decoded: %(error)s", place)
        self.undecodable.extend(decoded.undecodable)
        self.fetched.add(decoded.records)


def _acquired_ranges(part: Any) -> list[AcquiredRange]:
    return [AcquiredRange(r.first_offset, r.last_offset, r.delivery_count) for r in part.acquired_records]


def commit_results(results: list[AcknowledgeResult]) -> CommitResults:
    """Return {partition: its first error, or None if all acknowledgements succeeded}."""
    found: CommitResults = {}
    for result in results:
        found[result.source] = found.get(result.source) or result.error
    return found
