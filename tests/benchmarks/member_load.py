"""Steady requests: one member that acknowledges and fetches again as soon as it is answered, at many share-partitions.

It speaks the rows of the request topics, as the gateway does, through a fast client (librdkafka), so that what is
measured is the job and not the load.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Mapping

from sharegroup.config import JobConfig
from sharegroup.core.group_coordinator.heartbeat_rules import LEAVE_GROUP_EPOCH
from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_records import LIST_SUFFIX
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from tests.benchmarks import topics
from tests.benchmarks.row_load import RowLoad

ENGINE = JobConfig()
_HEARTBEAT_S = 5.0
_MAX_WAIT_MS = 600_000


class MemberLoad(RowLoad):
    """A member of `group_id`; share-partition `p` is asked for in request partition `p % request_partitions`.

    `row_topics` names the three topics of the job's rows, by their config
    keys. It joins at once and asks for nothing before `ask`. `hold` keeps answers back until `go_on`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        topic: str,
        partitions: int,
        max_records: int,
        row_topics: Mapping[str, str],
    ) -> None:
        self._member_id = str(uuid.uuid4())
        super().__init__(bootstrap_servers, row_topics, f"{self._member_id}{LIST_SUFFIX}", linger_ms=1)
        names = self._config
        self._group_requests, self._partition_requests = names.group_requests_topic, names.partition_requests_topic
        self._group_id, self._topic, self._partitions, self._max_records = group_id, topic, partitions, max_records
        self._topic_id = topics.topic_id(bootstrap_servers, topic)
        self._is_leaving = threading.Event()
        self._has_left = False
        self._asked: set[int] = set()
        self._assigned: set[int] = set()
        self._epoch = 0
        self._heartbeat_due = 0.0
        self.rounds = self.records = 0

    def _await_members(self) -> None:
        self._await(lambda: len(self._assigned) == self._partitions, "the assignment of all partitions")

    def ask(self, partitions: Collection[int]) -> None:
        """From now on exactly these share-partitions are asked for and acknowledged."""
        new = set(partitions) - self._asked
        self._asked = set(partitions)
        for partition in sorted(new):
            self._fetch(partition)
        self._producer.flush()

    def await_rounds(self, rounds: int, timeout_s: float = 300) -> None:
        """Wait until so many fetches have been answered with records since the start."""
        self._await(lambda: self.rounds >= rounds, f"{rounds} answered fetches", timeout_s)

    def leave(self) -> None:
        """Leave the group for good; what was asked for is given up."""
        self._asked = set()
        self._is_leaving.set()
        self._await(lambda: self._epoch < 0, "the answer to leaving")

    def _heartbeat(self) -> None:
        if (time.monotonic() < self._heartbeat_due and not self._is_leaving.is_set()) or self._has_left:
            return
        self._has_left = self._is_leaving.is_set()
        epoch = LEAVE_GROUP_EPOCH if self._has_left else self._epoch
        self._heartbeat_due = time.monotonic() + _HEARTBEAT_S
        request = HeartbeatRequest(
            next(self._ids),
            self._group_id,
            self._reply_to,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else (self._topic,),
            topics={self._topic: TopicMetadata(self._topic_id, self._partitions)},
        )
        self._producer.produce(self._group_requests, request.encode(), request.kafka_key)
        self._producer.poll(0)

    def _take(self, response: Response) -> None:
        if response.error_code == ErrorCode.INVALID_RECORD_STATE:
            return  # its lock ran out while the job stood still; the records come again
        if response.error_code:
            raise RuntimeError(f"the job refused a request: {response}")
        if isinstance(response, HeartbeatResponse):
            self._take_heartbeat(response)
        elif isinstance(response, FetchResponse):
            if response.acquired:
                self._take_records(response)
            if response.partition in self._asked:
                self._fetch(response.partition)

    def _take_heartbeat(self, response: HeartbeatResponse) -> None:
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned = {p for _, partitions in response.assignment.values() for p in partitions}
        if len(self._assigned) < self._partitions:
            self._heartbeat_due = time.monotonic() + 0.5  # share-partitions are still being initialised

    def _take_records(self, response: FetchResponse) -> None:
        self.rounds += 1
        self.records += sum(last - first + 1 for first, last, _ in response.acquired)
        accepted = tuple(
            AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,)) for first, last, _ in response.acquired
        )
        named = self._named(response.partition)
        self._send(AcknowledgeRequest(*named, batches=accepted, acquired=response.acquired))

    def _fetch(self, partition: int) -> None:
        named = self._named(partition)
        self._send(FetchRequest(*named, max_records=self._max_records, max_wait_ms=_MAX_WAIT_MS))

    def _named(self, partition: int) -> tuple[str, str, str, str, int, str, int, str]:
        """What a request begins with."""
        topic = self._topic, self._topic_id, partition
        return next(self._ids), self._group_id, *topic, self._member_id, self._epoch, self._reply_to

    def _send(self, request: SharePartitionRequest) -> None:
        self._producer.produce(
            self._partition_requests,
            request.encode(),
            request.kafka_key,
            partition=request.partition % ENGINE.request_topic_partitions,
        )
