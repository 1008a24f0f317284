"""Many members in one process, with one client: each fetches what it is assigned, acknowledges, and fetches again."""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from sharegroup.config import JobConfig
from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_rows import decode_response
from sharegroup.protocol.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.share_group_responses import HeartbeatResponse
from sharegroup.protocol.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.protocol.share_partition_responses import FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from tests.benchmarks import topics

_HEARTBEAT_S = 5.0
_MAX_WAIT_MS = 600_000
_REPLY_TO = "fleet"
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


class FleetLoad:
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
        self._config = JobConfig.model_validate(dict(row_topics))
        self._group_id, self._topic, self._partitions = group_id, topic, partitions
        self._topic_id = topics.topic_id(bootstrap_servers, topic)
        made = [_Member() for _ in range(members)]
        self._members = {member.id: member for member in made}
        self._ids = map(str, itertools.count())
        #: By the request's id: whose it is.
        self._waiting: dict[str, _Member] = {}
        settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producer = Producer({**settings, "linger.ms": 5})
        self._consumer = Consumer({**settings, "group.id": _REPLY_TO, "fetch.wait.max.ms": 100})
        numbers = range(self._config.request_topic_partitions)
        self._consumer.assign([TopicPartition(self._config.responses_topic, p, OFFSET_END) for p in numbers])
        self._rows = self._records = 0
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def __enter__(self) -> FleetLoad:
        self._thread.start()
        self._await(lambda: all(member.asked for member in self._members.values()), "members with an assignment")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        if error is None and self._failure is not None:
            raise RuntimeError("the load has failed") from self._failure

    def counts(self) -> Counts:
        """What there was up to now."""
        return Counts(self._rows, self._records)

    def await_records(self, records: int) -> None:
        """Wait until so many more have come."""
        wanted = self._records + records
        self._await(lambda: self._records >= wanted, f"{records} records")

    def _await(self, condition: Callable[[], bool], what: str, timeout_s: float = 300) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._failure is not None:
                raise RuntimeError("the load has failed") from self._failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
            time.sleep(0.05)  # polls the load's thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._heartbeats()
                first = self._consumer.poll(0.1)
                for message in [] if first is None else [first, *self._consumer.consume(2_000, 0)]:
                    if message.error() is None and message.key() == _REPLY_TO.encode():
                        self._take(message.value() or b"")
                self._producer.poll(0)
        except BaseException as error:
            self._failure = error
            raise

    def _heartbeats(self) -> None:
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

    def _take(self, value: bytes) -> None:
        response = decode_response(value)
        member = self._waiting.pop(response.id, None)
        if isinstance(response, HeartbeatResponse):
            if response.error_code:
                raise RuntimeError(f"the job refused a heartbeat: {json.loads(value)}")
            if member is not None:
                self._take_heartbeat(member, response)
            return
        self._rows += 1
        if response.error_code and response.error_code not in _REFUSED_WHILE_MOVING:
            raise RuntimeError(f"the job refused a request: {json.loads(value)}")
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
            self._records += sum(last - first + 1 for first, last, _ in response.acquired)
            accepted = tuple(
                AcknowledgementBatch(first, last, (AcknowledgeType.ACCEPT,)) for first, last, _ in response.acquired
            )
            named = self._named(member, response.partition)
            self._send(AcknowledgeRequest(*named, batches=accepted, acquired=response.acquired))
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
        self._rows += 1
        number = request.partition % self._config.request_topic_partitions
        topic = self._config.partition_requests_topic
        while True:
            try:
                self._producer.produce(topic, request.encode(), request.kafka_key, partition=number)
                return
            except BufferError:
                self._producer.poll(0.1)
