"""The guarantees of `Member` for its threads, with an in-memory job and a channel that observes the threads."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.member import member_loop
from sharegroup.member.batch_calls import ResponseTimeoutError
from sharegroup.member.member import Member
from sharegroup.member.member_logic import MemberSettings, Request
from sharegroup.member.ranges import HeldRange, OfferedBatch
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.spark.share_consumer.acknowledgements import acknowledge_all
from sharegroup.types import AcknowledgeType
from tests.unit.core.operators.shard_driver import GROUP, LOCK_MS, T0, TOPIC

from .in_memory_job import PATIENCE_S, TOPIC_ID, InMemoryJob, MemberChannel, Offers

ACCEPT = AcknowledgeType.ACCEPT
OWN_THREAD = "share-consumer-member"


class DefectError(Exception):
    """An error that no part of the member expects."""


class WatchedChannel:
    """A channel that records the thread of each call and lets another thread read the member's state during it."""

    def __init__(self, job: InMemoryJob) -> None:
        self._channel = MemberChannel(job, "m")
        self.look: Callable[[], object] = lambda: None
        self.threads: dict[str, set[str]] = {}
        self.stuck: list[str] = []
        self.defect: Exception | None = None

    def open(self) -> bool:
        self._watch("open")
        return self._channel.open()

    def poll(self, timeout_ms: int) -> list[Response]:
        self._watch("poll")
        if self.defect is not None:
            raise self.defect
        return self._channel.poll(timeout_ms)

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        self._watch("send")
        self._channel.send(requests, wait)

    def brokers_ahead_ms(self) -> int:
        return self._channel.brokers_ahead_ms()

    def topic_names(self) -> set[str]:
        self._watch("topic_names")
        return self._channel.topic_names()

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        self._watch("topics_metadata")
        return self._channel.topics_metadata(names)

    def close(self) -> None:
        self._watch("close")
        self._channel.close()

    def _watch(self, call: str) -> None:
        self.threads.setdefault(call, set()).add(threading.current_thread().name)
        looking = threading.Thread(target=self.look, daemon=True)
        looking.start()
        looking.join(PATIENCE_S)
        if looking.is_alive():
            self.stuck.append(call)


class Started:
    """A started member and its reported failures."""

    def __init__(self, job: InMemoryJob) -> None:
        self.channel, self.offers = WatchedChannel(job), Offers()
        self.failures = 0
        wanted: dict[str, Any] = {"max_records": 100, "acknowledge_timeout_ms": PATIENCE_S * 1000}
        settings = MemberSettings(GROUP, "m", (TOPIC,), **wanted)
        self.member = Member(settings, self.channel, self.offers, self._count, job.now_ms)
        self.channel.look = self.member.holds_batch
        self.member.start()

    def _count(self) -> None:
        self.failures += 1


Start = Callable[[InMemoryJob], Started]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Started] = []

    def make(job: InMemoryJob) -> Started:
        started.append(Started(job))
        return started[-1]

    yield make
    for each in started:
        each.member.close()


def not_begun(member: Member) -> BaseException:
    """Return the error raised instead of a response for a batch of an earlier process."""
    earlier = OfferedBatch(7, "earlier", (HeldRange(TOPIC, TOPIC_ID, 0, 0, 9, 1, T0 + LOCK_MS),))
    with pytest.raises(ResponseTimeoutError) as raised:
        member.begin(earlier)
    return raised.value


def test_reading_state_never_waits_for_kafka(start: Start) -> None:
    job = InMemoryJob(records=100)
    started = start(job)
    batch = started.offers.claim()
    started.member.begin(batch)
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: job.log_of("renew"))
    started.member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    started.member.finish(batch.seq)
    started.member.close()
    assert started.channel.stuck == []
    own, batchs = {OWN_THREAD}, threading.current_thread().name
    assert started.channel.threads == {
        "open": own, "poll": own, "topics_metadata": own, "close": own, "send": own | {batchs}
    }  # fmt: skip


def test_an_unexpected_error_ends_the_thread_and_all_waits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_loop, "PAUSE_S", 0)
    job = InMemoryJob()
    started = start(job)
    job.wait_for(lambda: job.sent(FetchRequest))
    job.is_reachable = False
    waited: list[BaseException] = []
    beginning = threading.Thread(target=lambda: waited.append(not_begun(started.member)))
    beginning.start()
    job.wait_for(lambda: job.given_up)  # so it waits for a response by now
    started.channel.defect = DefectError()
    beginning.join(PATIENCE_S / 2)  # its deadline is later
    job.wait_for(lambda: job.closed)
    assert [error.__cause__ for error in waited] == [started.channel.defect]
    assert started.member.failure is started.channel.defect
    assert started.failures == 1


def test_acknowledging_after_the_threads_end_fails_immediately(start: Start) -> None:
    job = InMemoryJob(records=100)
    started = start(job)
    batch = started.offers.claim()
    started.member.begin(batch)
    started.channel.defect = DefectError()
    job.wait_for(lambda: job.closed)
    with pytest.raises(ResponseTimeoutError, match="has failed") as raised:
        started.member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    assert raised.value.__cause__ is started.channel.defect
    assert job.acknowledgements() == []


def test_the_first_failure_is_reported(start: Start) -> None:
    job = InMemoryJob()
    job.refuse_joins_with = ErrorCode.INVALID_REQUEST
    started = start(job)
    job.wait_for(lambda: started.failures)
    started.channel.defect = DefectError()
    job.wait_for(lambda: job.closed)
    assert isinstance(started.member.failure, RequestError)
    assert started.failures == 1
