"""Steady requests: one member that acknowledges and fetches again as soon as it is answered, at many share-partitions.

It speaks the rows of the request topics, as the gateway does, through a fast client (librdkafka), so that what is
measured is the job and not the load.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from types import TracebackType

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

from sharegroup.config import JobConfig
from sharegroup.errors import ErrorCode
from sharegroup.group_coordinator.heartbeat_rules import LEAVE_GROUP_EPOCH
from sharegroup.protocol.response_rows import decode_response
from sharegroup.protocol.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.share_group_responses import HeartbeatResponse
from sharegroup.protocol.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.protocol.share_partition_responses import FetchResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from tests.benchmarks import topics

ENGINE = JobConfig()
_HEARTBEAT_S = 5.0
_MAX_WAIT_MS = 600_000


class MemberLoad:
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
        names = JobConfig.model_validate(dict(row_topics))
        self._group_requests, self._partition_requests = names.group_requests_topic, names.partition_requests_topic
        self._group_id, self._topic, self._partitions, self._max_records = group_id, topic, partitions, max_records
        self._member_id = str(uuid.uuid4())
        self._ids = map(str, itertools.count())
        self._topic_id = topics.topic_id(bootstrap_servers, topic)
        settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producer = Producer({**settings, "linger.ms": 1})
        self._consumer = Consumer(
            {**settings, "group.id": self._member_id, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        )
        self._consumer.assign(
            [TopicPartition(names.responses_topic, p, OFFSET_END) for p in range(ENGINE.request_topic_partitions)]
        )
        self._going = threading.Event()
        self._going.set()
        self._stop = threading.Event()
        self._is_leaving = threading.Event()
        self._has_left = False
        self._asked: set[int] = set()
        self._assigned: set[int] = set()
        self._epoch = 0
        self._heartbeat_due = 0.0
        self.rounds = self.records = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="member-load", daemon=True)

    def __enter__(self) -> MemberLoad:
        self._thread.start()
        self._await(lambda: len(self._assigned) == self._partitions, "the assignment of all partitions")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._going.set()
        self._thread.join()
        self._producer.flush()
        self._consumer.close()
        if error is None and self.failure is not None:
            raise RuntimeError("the load has failed") from self.failure

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

    def hold(self) -> None:
        """Answer nothing more; heartbeats go on."""
        self._going.clear()

    def go_on(self) -> None:
        """Answer what has come meanwhile, and on."""
        self._going.set()

    def leave(self) -> None:
        """Leave the group for good; what was asked for is given up."""
        self._asked = set()
        self._is_leaving.set()
        self._await(lambda: self._epoch < 0, "the answer to leaving")

    def _await(self, condition: Callable[[], bool], what: str, timeout_s: float = 120) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.failure is not None:
                raise RuntimeError("the load has failed") from self.failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
            time.sleep(0.05)  # polls the load's thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._heartbeat()
                if not self._going.is_set():
                    self._going.wait(0.2)
                    continue
                for message in self._messages():
                    if message.error() is None and message.key() == self._member_id.encode():
                        self._take(message.value() or b"")
                self._producer.poll(0)
        except BaseException as error:
            self.failure = error
            raise

    def _messages(self) -> list[Message]:
        """What has come, as soon as there is something: `consume` alone waits for as many as it may give."""
        first = self._consumer.poll(0.1)
        return [] if first is None else [first, *self._consumer.consume(2_000, 0)]

    def _heartbeat(self) -> None:
        if (time.monotonic() < self._heartbeat_due and not self._is_leaving.is_set()) or self._has_left:
            return
        self._has_left = self._is_leaving.is_set()
        epoch = LEAVE_GROUP_EPOCH if self._has_left else self._epoch
        self._heartbeat_due = time.monotonic() + _HEARTBEAT_S
        request = HeartbeatRequest(
            next(self._ids),
            self._group_id,
            self._member_id,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else (self._topic,),
            topics={self._topic: TopicMetadata(self._topic_id, self._partitions)},
        )
        self._producer.produce(self._group_requests, request.encode(), request.kafka_key)
        self._producer.poll(0)

    def _take(self, value: bytes) -> None:
        response = decode_response(value)
        if response.error_code == ErrorCode.INVALID_RECORD_STATE:
            return  # its lock ran out while the job stood still; the records come again
        if response.error_code:
            raise RuntimeError(f"the job refused a request: {json.loads(value)}")
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
        return next(self._ids), self._group_id, *topic, self._member_id, self._epoch, self._member_id

    def _send(self, request: SharePartitionRequest) -> None:
        self._producer.produce(
            self._partition_requests,
            request.encode(),
            request.kafka_key,
            partition=request.partition % ENGINE.request_topic_partitions,
        )
