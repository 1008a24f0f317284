"""Members controlled by a test: each step sends one request row and may wait for its response row.

    client = RequestClient(bootstrap_servers)
    member = RawMember(client, "orders-group")
    member.join({"orders": 2})
    acquired = member.fetch("orders", 0, max_records=100).acquired
    member.acknowledge("orders", 0, [(0, 99, AcknowledgeType.ACCEPT)])

There is no heartbeat thread and no retry, so a test controls each row. A row is durable when `send` returns, so a job
that is down, or dies, reads it later. A response that arrives twice is reported once.
"""

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sharegroup.config import JobConfig
from sharegroup.kafka_clients.topic_lookup import TopicLookup
from sharegroup.protocol.rows.response_rows import Response, decode_responses
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import (
    AcknowledgeRequest,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange

#: The time limit of a response; a job may have to start first, on a busy machine.
RESPONSE_DEADLINE_S = 600.0
#: The default time for which a fetch waits for its first record.
MAX_WAIT_MS = 600_000
#: The maximum delay until new partitions of the response topic are detected.
_METADATA_AGE_MS = 2_000

Request = ShareGroupRequest | SharePartitionRequest


class NoResponseError(AssertionError):
    """A request had no response in time."""


class RequestClient:
    """A client that sends request rows and collects their responses. The topics of `config` must exist.

    `check` is called during each wait for a response; it raises if further waiting is useless.
    """

    def __init__(
        self, bootstrap_servers: str, config: JobConfig | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._check = check
        self._config = config or JobConfig()
        self.reply_to = f"raw-{uuid.uuid4().hex}"
        self.responses: dict[str, Response] = {}
        self._numbers = itertools.count(1)
        self._topics = TopicLookup({"bootstrap_servers": bootstrap_servers})
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=0)
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            metadata_max_age_ms=_METADATA_AGE_MS,
        )
        self._consumer.assign(sorted(self._response_partitions()))
        self._consumer.seek_to_end()
        for partition in self._consumer.assignment():
            self._consumer.position(partition)  # fetched now instead of at the first poll

    def next_id(self) -> str:
        """Return a new request id; the ids of two clients differ."""
        return f"{self.reply_to}-{next(self._numbers)}"

    def topic_id(self, topic: str) -> str:
        """Return the topic's current id; for a topic that does not exist, an id that no topic has."""
        found = self._topics.describe_topics([topic])
        return found[topic].topic_id if topic in found else f"id-of-{topic}"

    def send(self, request: Request) -> str:
        """Append a request row and return its id."""
        self.send_all([request])
        return request.id

    def send_all(self, requests: Iterable[Request]) -> None:
        """Append request rows in their order; all are durable on return."""
        futures = []
        for request in requests:
            is_group = isinstance(request, ShareGroupRequest)
            topic = self._config.group_requests_topic if is_group else self._config.partition_requests_topic
            futures.append(self._producer.send(topic, key=request.kafka_key, value=request.encode()))
        self._producer.flush()
        for future in futures:
            future.get(timeout=RESPONSE_DEADLINE_S)

    def send_value(self, topic: str, value: bytes, key: bytes | None = None) -> tuple[int, int]:
        """Append arbitrary bytes to a topic and return the row's (partition, offset)."""
        metadata = self._producer.send(topic, key=key, value=value).get(timeout=RESPONSE_DEADLINE_S)
        return metadata.partition, metadata.offset

    def send_values(self, topic: str, values: Iterable[bytes]) -> None:
        """Append many values to a topic; all are durable on return."""
        futures = [self._producer.send(topic, value=value) for value in values]
        self._producer.flush()
        for future in futures:
            future.get(timeout=RESPONSE_DEADLINE_S)

    def await_response(self, request_id: str, timeout_s: float = RESPONSE_DEADLINE_S) -> Response:
        """Wait for the response to a request and return it. Raises NoResponseError."""
        deadline = time.monotonic() + timeout_s
        while request_id not in self.responses:
            if time.monotonic() > deadline:
                raise NoResponseError(f"no response to {request_id} in {timeout_s} s")
            self._check()
            self._poll()
        return self.responses[request_id]

    def call(self, request: Request, timeout_s: float = RESPONSE_DEADLINE_S) -> Response:
        return self.await_response(self.send(request), timeout_s)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
        self._topics.close()

    def _response_partitions(self) -> set[TopicPartition]:
        topic = self._config.responses_topic
        return {TopicPartition(topic, number) for number in self._consumer.partitions_for_topic(topic) or ()}

    def _read_new_partitions(self) -> None:
        """Read partitions that the response topic received since this client was opened, from their start."""
        known = self._consumer.assignment()
        new = self._response_partitions() - known
        if new:
            self._consumer.assign(sorted(known | new))
            self._consumer.seek_to_beginning(*new)

    def _poll(self) -> None:
        self._read_new_partitions()
        for records in self._consumer.poll(timeout_ms=100).values():
            for record in records:
                if record.key == self.reply_to.encode():
                    for response in decode_responses(record.value):
                        known = self.responses.setdefault(response.id, response)
                        assert known == response, f"two different responses to one request: {known} and {response}"


class RawMember:
    """A member of a group. `epoch` is the member epoch of the last heartbeat response.

    `topic_ids` are the ids with which it names its topics: those of the last heartbeat request or response with topics.
    """

    def __init__(self, client: RequestClient, group_id: str, member_id: str | None = None) -> None:
        self.client, self.group_id = client, group_id
        self.member_id = member_id or str(uuid.uuid4())
        self.epoch = 0
        self.assignment: dict[str, list[int]] = {}
        self.topic_ids: dict[str, str] = {}

    # -- the group

    def heartbeat(
        self, topics: Mapping[str, int] | None = None, timeout_s: float = RESPONSE_DEADLINE_S
    ) -> HeartbeatResponse:
        """Send a heartbeat and return its response; `topics` maps subscribed names to their partition counts."""
        response = self.client.call(self.heartbeat_request(topics, self.epoch), timeout_s)
        assert isinstance(response, HeartbeatResponse)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.assignment = {topic: partitions for topic, (_, partitions) in response.assignment.items()}
                self.topic_ids |= {topic: topic_id for topic, (topic_id, _) in response.assignment.items()}
        return response

    def join(self, topics: Mapping[str, int], timeout_s: float = RESPONSE_DEADLINE_S) -> None:
        """Join or change the subscription and wait for a partition of each topic. Raises AssertionError."""
        deadline = time.monotonic() + timeout_s
        response = self.heartbeat(topics, timeout_s)
        while response.error_code == 0 and set(self.assignment) != set(topics) and time.monotonic() < deadline:
            time.sleep(response.heartbeat_interval_ms / 1000)  # the coordinator's interval
            response = self.heartbeat()
        assert response.error_code == 0, response
        assert set(self.assignment) == set(topics), f"not assigned in time: {self.assignment}"

    def leave(self) -> HeartbeatResponse:
        self.epoch = -1
        return self.heartbeat()

    def heartbeat_request(self, topics: Mapping[str, int] | None, epoch: int) -> HeartbeatRequest:
        self.topic_ids |= {name: self.client.topic_id(name) for name in topics or ()}
        return HeartbeatRequest(
            self.client.next_id(),
            self.group_id,
            self.client.reply_to,
            member_id=self.member_id,
            member_epoch=epoch,
            client_id="raw",
            subscribed_topic_names=None if topics is None else tuple(topics),
            topics={name: TopicMetadata(self.topic_ids[name], count) for name, count in (topics or {}).items()},
        )

    # -- its share-partitions

    def fetch(self, topic: str, partition: int, max_records: int, max_wait_ms: int = MAX_WAIT_MS) -> FetchResponse:
        """Acquire up to `max_records`, waiting for the first one."""
        response = self.client.call(self.fetch_request(topic, partition, max_records, max_wait_ms))
        assert isinstance(response, FetchResponse)
        return response

    def acknowledge(
        self,
        topic: str,
        partition: int,
        batches: Sequence[tuple[int, int, int]],
        is_renew_ack: bool = False,
        acquired: Iterable[AcquiredRange] = (),
    ) -> AcknowledgeResponse:
        """Acknowledge (first_offset, last_offset, acknowledge type) ranges of `acquired`, or of all held ranges."""
        response = self.client.call(self.acknowledge_request(topic, partition, batches, is_renew_ack, acquired))
        assert isinstance(response, AcknowledgeResponse)
        return response

    def fetch_request(
        self, topic: str, partition: int, max_records: int, max_wait_ms: int = MAX_WAIT_MS
    ) -> FetchRequest:
        return FetchRequest(*self._header(topic, partition), max_records=max_records, max_wait_ms=max_wait_ms)

    def acknowledge_request(
        self,
        topic: str,
        partition: int,
        batches: Sequence[tuple[int, int, int]],
        is_renew_ack: bool = False,
        acquired: Iterable[AcquiredRange] = (),
    ) -> AcknowledgeRequest:
        rows = tuple(AcknowledgementBatch(first, last, (int(kind),)) for first, last, kind in batches)
        return AcknowledgeRequest(
            *self._header(topic, partition), batches=rows, is_renew_ack=is_renew_ack, acquired=tuple(acquired)
        )

    def unacquire_request(self, topic: str, partition: int, ranges: Sequence[tuple[int, int]]) -> UnacquireRequest:
        """Return the row that gives back unprocessed ranges."""
        rows = tuple(OffsetRange(first, last) for first, last in ranges)
        return UnacquireRequest(*self._header(topic, partition), ranges=rows)

    def _header(self, topic: str, partition: int) -> tuple[str, str, str, str, int, str, int, str]:
        """Return the first fields of every row for a share-partition."""
        if topic not in self.topic_ids:
            self.topic_ids[topic] = self.client.topic_id(topic)
        who = self.group_id, topic, self.topic_ids[topic], partition, self.member_id, self.epoch, self.client.reply_to
        return self.client.next_id(), *who
