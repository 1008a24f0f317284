"""A share-group job in memory for members of `orders`-0: the real shard, a clock set by the test, and Kafka as a list.

Times are milliseconds after `T0` and pass only with `advance`. The topic can be deleted and created again under its
name; the one shard then stands for the new topic, whose id is in the rows.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka.errors import KafkaTimeoutError

from sharegroup.core.operators.share_partition.notices import rejection
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.member.ranges import OfferedBatch
from sharegroup.protocol.rows.response_rows import Response, decode_responses
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from tests.unit.core.operators.shard_driver import (
    T0,
    TOPIC,
    ShardDriver,
    acknowledge,
    config,
    fetch,
    load,
    log,
    release,
    tick,
)

R = TypeVar("R", bound=ShareGroupRequest | SharePartitionRequest)
PATIENCE_S = 600
HEARTBEAT_MS = 5_000
#: The topic id of the shard's driver.
TOPIC_ID = fetch("any").topic_id


class InMemoryJob:
    """The job; `values` are of the group's configuration.

    Members wait for `changed`, so a test that holds it stops them at their next request.
    """

    def __init__(self, records: int = 0, **values: object) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.requests: list[ShareGroupRequest | SharePartitionRequest] = []
        self.refuse_joins_with: ErrorCode | None = None
        self.is_reachable = True
        self.given_up = 0
        self.closed: list[str] = []
        self.topic_id = TOPIC_ID
        self.looks = 0
        self.topics = {TOPIC}
        self.assigned_partitions = [0]
        self._assigned: dict[str, dict[str, list[object]]] = {}
        self._shard = ShardDriver(restarts=False)
        self._at = 0
        self._end = records
        self._responses: dict[str, list[Response]] = defaultdict(list)
        self._answered: set[str] = set()
        self._transitions: list[tuple[int, int, str, str, int]] = []
        self._values = values
        self._run(config(**values), load(0, (0, records)))

    # -- actions of a test -----------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the job and its members."""
        return T0 + self._at

    def advance(self, ms: int) -> None:
        """Let time pass, so that locks expire."""
        with self.changed:
            self._at += ms
            self._run(tick(self._at))

    def produce(self, records: int) -> None:
        with self.changed:
            self._end += records
            self._run(log(self._end))

    def make_topic_again(self, topic_id: str, records: int = 0) -> None:
        """Delete the topic and create one with the same name; pending fetches are rejected."""
        with self.changed:
            old, self.topic_id, self._end = self.topic_id, topic_id, records
            for request in self.sent(FetchRequest):
                if request.topic_id == old and request.id not in self._answered:
                    self._refuse(request)
            self._shard = ShardDriver(restarts=False)
            self._run(config(**self._values), load(0, (0, records)))

    def delete_records(self, below: int) -> None:
        """Move the log's start offset."""
        self._run(log(self._end, start=below))

    def configure(self, **values: object) -> None:
        self._run(config(**values))

    def fetch(self, member: str, max_records: int = 100) -> list[tuple[int, int, int]]:
        """Acquire records for another member, or an earlier process of this one."""
        with self.changed:
            request = replace(fetch("f", member, max_records, max_wait_ms=0), reply_to="test")
            self._run(self._shard.line(request, self._at))
            [response] = self._responses.pop("test")
            assert isinstance(response, FetchResponse)
            return [tuple(acquired) for acquired in response.acquired]

    def acknowledge(self, member: str, *batches: tuple[int, int, int]) -> None:
        """Acknowledge (first offset, last offset, acknowledge type)."""
        with self.changed:
            request = replace(acknowledge("a", *batches, member=member), reply_to="test")
            self._run(self._shard.line(request, self._at))
            responses = self._responses.pop("test")
            [response] = [response for response in responses if isinstance(response, AcknowledgeResponse)]
            assert response.error_code == 0, response

    def release(self, member: str) -> None:
        """Remove the member in the group coordinator."""
        self._run(self._shard.line(replace(release("r", member), reply_to=""), self._at))

    def respond(self, response: Response) -> None:
        with self.changed:
            self._answered.add(response.id)
            self._responses[response.reply_to].append(response)
            self.changed.notify_all()

    # -- results ---------------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S)

    def log_of(self, cause: str) -> list[tuple[int, int, str, int]]:
        """Return (first offset, last offset, member, delivery count) of the transitions with this cause."""
        return [(first, last, member, count) for first, last, why, member, count in self._transitions if why == cause]

    def sent(self, kind: type[R]) -> list[R]:
        """Return members' rows of this type."""
        return [request for request in self.requests if isinstance(request, kind)]

    def acknowledgements(self, is_renew_ack: bool = False) -> list[AcknowledgeRequest]:
        """Return members' acknowledgement rows, or their renewals."""
        return [row for row in self.sent(AcknowledgeRequest) if row.is_renew_ack == is_renew_ack]

    # -- a member's channel ----------------------------------------------------------------------------------------

    def open(self) -> bool:
        return True

    def topic_names(self) -> set[str]:
        return set(self.topics)

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        self.looks += 1
        return {name: TopicMetadata(self.topic_id, 1) for name in names if name in self.topics}

    def take(self, member_id: str, timeout_ms: int) -> list[Response]:
        with self.changed:
            self.changed.wait_for(lambda: self._responses[member_id], timeout_ms / 1000)
            return self._responses.pop(member_id)

    def send(self, requests: Sequence[ShareGroupRequest | SharePartitionRequest], wait: bool = False) -> None:
        with self.changed:
            self.changed.notify_all()
            if not self.is_reachable:
                self.given_up += wait
                if wait:
                    raise KafkaTimeoutError
                return
            for request in requests:
                self.requests.append(request)
                if isinstance(request, HeartbeatRequest):
                    self._heartbeat(request)
                elif not isinstance(request, SharePartitionRequest):
                    raise TypeError(request)
                elif request.topic_id != self.topic_id:
                    self._refuse(request)
                else:
                    self._run(self._shard.line(replace(request, topic_id=TOPIC_ID), self._at))

    def close(self, member_id: str) -> None:
        with self.changed:
            self.closed.append(member_id)
            self.changed.notify_all()

    def _heartbeat(self, request: HeartbeatRequest) -> None:
        code = self.refuse_joins_with or ErrorCode.NONE
        target = {TOPIC: [self.topic_id, self.assigned_partitions]} if self.assigned_partitions else {}
        is_news = request.member_epoch == 0 or self._assigned.get(request.member_id) != target
        self._assigned[request.member_id] = target
        self.respond(
            HeartbeatResponse(
                request.id, request.reply_to, request.group_id, code, "why", member_id=request.member_id,
                member_epoch=1, heartbeat_interval_ms=HEARTBEAT_MS, assignment=target if is_news else None,
            )
        )  # fmt: skip

    def _refuse(self, request: SharePartitionRequest) -> None:
        self.respond(rejection(request, RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "deleted")))

    def _run(self, *lines: str) -> None:
        with self.changed:
            output = self._shard.batch(*lines, at=self._at)
            for row in output.tables.get("delivery_log", ()):
                names = ("first_offset", "last_offset", "cause", "member_id", "delivery_count")
                self._transitions.append(tuple(row[name] for name in names))  # type: ignore[arg-type]
            for response in output.responses:
                self.respond(*decode_responses(json.dumps(response | {"topic_id": self.topic_id}).encode()))
            self.changed.notify_all()


class MemberChannel:
    """One member's channel to the job. `ahead_ms` is how far the job's clock is ahead of the member's."""

    def __init__(self, job: InMemoryJob, member_id: str, ahead_ms: int = 0) -> None:
        self._job, self._member_id, self._ahead_ms = job, member_id, ahead_ms
        self.open, self.topics_metadata, self.send = job.open, job.topics_metadata, job.send
        self.topic_names = job.topic_names

    def brokers_ahead_ms(self) -> int:
        return self._ahead_ms

    def poll(self, timeout_ms: int) -> list[Response]:
        return self._job.take(self._member_id, timeout_ms)

    def close(self) -> None:
        self._job.close(self._member_id)


class Offers:
    """The offer file as a variable."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._offer: OfferedBatch | None = None

    def put(self, batch: OfferedBatch) -> None:
        with self.changed:
            self._offer = batch
            self.changed.notify_all()

    def is_claimed(self) -> bool:
        return self._offer is None

    def withdraw(self) -> bool:
        with self.changed:
            had, self._offer = self._offer is not None, None
            return had

    def close(self) -> None:
        pass

    def wait_for_offer(self) -> OfferedBatch:
        with self.changed:
            assert self.changed.wait_for(lambda: self._offer, PATIENCE_S)
            assert self._offer is not None
            return self._offer

    def claim(self) -> OfferedBatch:
        with self.changed:
            claimed = self.wait_for_offer()
            self._offer = None
            return claimed
