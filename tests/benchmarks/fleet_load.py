"""Many members in one process, with one client: each fetches what it is assigned, acknowledges, and fetches again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

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

_HEARTBEAT_S = 5.0
_MAX_WAIT_MS = 600_000
_REPLY_TO = f"fleet{LIST_SUFFIX}"
_PATIENCE_S = 300.0
_REFUSED_WHILE_MOVING = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class Counts(NamedTuple):
    """Rows sent and received, and records that came, since the start."""

    rows: int
    records: int


class _Member:
    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.heartbeat_due = 0.0
        self.assigned: set[int] = set()
        self.asked: set[int] = set()


class FleetLoad(RowLoad):
    """`members` members of a group on one topic, inside the `with` block; they have joined when it begins."""

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        topic: str,
        partitions: int,
        members: int,
        row_topics: Mapping[str, str],
    ) -> None:
        super().__init__(bootstrap_servers, row_topics, _REPLY_TO, linger_ms=5)
        self._group_id, self._topic, self._partitions = group_id, topic, partitions
        self._topic_id = topics.topic_id(bootstrap_servers, topic)
        made = [_Member() for _ in range(members)]
        self._members = {member.id: member for member in made}
        #: By the request's id: whose it is.
        self._waiting: dict[str, _Member] = {}
        #: Requests to acknowledge that are not answered yet.
        self._acknowledging: set[str] = set()
        self._rows_sent = self._records = 0

    def _await_members(self) -> None:
        have_joined = "members with an assignment"
        self._await(lambda: all(member.asked for member in self._members.values()), have_joined, _PATIENCE_S)

    def counts(self) -> Counts:
        """What there was up to now."""
        return Counts(self._rows_sent + self._rows_came, self._records)

    def await_records(self, records: int) -> None:
        """Wait until so many more have come."""
        wanted = self._records + records
        self._await(lambda: self._records >= wanted, f"{records} records", _PATIENCE_S)

    def await_answers(self) -> None:
        """Wait until nothing that came is unacknowledged."""
        self._await(lambda: not self._acknowledging, "answers to acknowledgements", _PATIENCE_S)

    def _heartbeat(self) -> None:
        now = time.monotonic()
        for member in self._members.values():
            if now < member.heartbeat_due:
                continue
            member.heartbeat_due = now + _HEARTBEAT_S
            request = HeartbeatRequest(
                next(self._ids),
                self._group_id,
                _REPLY_TO,
                member_id=member.id,
                member_epoch=member.epoch,
                subscribed_topic_names=None if member.epoch else (self._topic,),
                topics={self._topic: TopicMetadata(self._topic_id, self._partitions)},
            )
            self._waiting[request.id] = member
            self._producer.produce(self._config.group_requests_topic, request.encode(), request.kafka_key)

    def _take(self, response: Response) -> None:
        member = self._waiting.pop(response.id, None)
        if isinstance(response, HeartbeatResponse):
            if response.error_code:
                raise RuntimeError(f"the job refused a heartbeat: {response}")
            if member is not None:
                self._take_heartbeat(member, response)
            return
        self._acknowledging.discard(response.id)
        if response.error_code and response.error_code not in _REFUSED_WHILE_MOVING:
            raise RuntimeError(f"the job refused a request: {response}")
        if isinstance(response, FetchResponse) and member is not None:
            self._take_fetch(member, response)

    def _take_heartbeat(self, member: _Member, response: HeartbeatResponse) -> None:
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.assigned = {p for _, partitions in response.assignment.values() for p in partitions}
        for partition in sorted(member.assigned - member.asked):
            self._fetch(member, partition)
        if not member.assigned:
            member.heartbeat_due = time.monotonic() + 0.5  # share-partitions are still being initialised

    def _take_fetch(self, member: _Member, response: FetchResponse) -> None:
        member.asked.discard(response.partition)
        if response.acquired:
            accepted = tuple(
                AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,)) for first, last, _ in response.acquired
            )
            named = self._named(member, response.partition)
            request = AcknowledgeRequest(*named, batches=accepted, acquired=response.acquired)
            self._acknowledging.add(request.id)
            self._send(request)
            self._records += sum(last - first + 1 for first, last, _ in response.acquired)
        if response.partition in member.assigned:
            self._fetch(member, response.partition)

    def _fetch(self, member: _Member, partition: int) -> None:
        member.asked.add(partition)
        request = FetchRequest(*self._named(member, partition), max_records=500, max_wait_ms=_MAX_WAIT_MS)
        self._waiting[request.id] = member
        self._send(request)

    def _named(self, member: _Member, partition: int) -> tuple[str, str, str, str, int, str, int, str]:
        """What a request begins with."""
        topic = self._topic, self._topic_id, partition
        return next(self._ids), self._group_id, *topic, member.id, member.epoch, _REPLY_TO

    def _send(self, request: SharePartitionRequest) -> None:
        self._rows_sent += 1
        number = request.partition % self._config.request_topic_partitions
        topic = self._config.partition_requests_topic
        while True:
            try:
                self._producer.produce(topic, request.encode(), request.kafka_key, partition=number)
                return
            except BufferError:
                self._producer.poll(0.1)
