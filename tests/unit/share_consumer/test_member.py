"""The member's thread against a share-group job in memory: Kafka's side of it is a list, the source's a variable."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.request_rows import ShareGroupRequest, SharePartitionRequest, TopicMetadata
from sharegroup.protocol.response_rows import Response, ShareGroupResponse, SharePartitionResponse
from sharegroup.spark.share_consumer.acknowledgements import acknowledge_all
from sharegroup.spark.share_consumer.member import Member, MemberSettings
from sharegroup.spark.share_consumer.ranges import HeldRange, OfferedBatch, SharePartition
from sharegroup.types import AcknowledgeType, AcquiredRange

P0 = SharePartition("t", 0)
PATIENCE_S = 10


class FakeJob:
    """Grants `available` offsets of t-0 to fetches; an acknowledgement needs the range to be `held`."""

    def __init__(self, available: int = 0, lock_ms: int = 30_000) -> None:
        self.changed = threading.Condition()
        self.available, self.lock_ms = available, lock_ms
        self.requests: list[ShareGroupRequest | SharePartitionRequest] = []
        self.held: set[tuple[int, int]] = set()
        self.settled: list[tuple[int, int, int]] = []
        self.renewed: list[tuple[int, int]] = []
        self.refuse_joins_with: ErrorCode | None = None
        self.is_closed = False
        self._next_offset = 0
        self._responses: list[Response] = []
        self._waiting: SharePartitionRequest | None = None

    def open(self) -> bool:
        return True

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata("id", 1) for name in names}

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def poll(self, timeout_ms: int) -> list[Response]:
        with self.changed:
            self.changed.wait_for(lambda: self._responses, timeout_ms / 1000)
            found, self._responses = self._responses, []
            return found

    def send(self, requests: Sequence[ShareGroupRequest | SharePartitionRequest], wait: bool = False) -> None:
        with self.changed:
            for request in requests:
                self.requests.append(request)
                if isinstance(request, ShareGroupRequest):
                    self._heartbeat(request)
                else:
                    getattr(self, f"_{request.type}")(request)
            self.changed.notify_all()

    def produce(self, records: int) -> None:
        with self.changed:
            self.available += records
            self._grant()
            self.changed.notify_all()

    def respond(self, response: Response) -> None:
        with self.changed:
            self._responses.append(response)
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S)

    def _heartbeat(self, request: ShareGroupRequest) -> None:
        code = self.refuse_joins_with or ErrorCode.NONE
        assignment = {"t": ["id", [0]]} if request.member_epoch == 0 else None
        self._responses.append(
            ShareGroupResponse("heartbeat", request.id, "m", "g", "m", code, "why", 1, 5_000, assignment)
        )

    def _fetch(self, request: SharePartitionRequest) -> None:
        self._waiting = request
        self._grant()

    def _grant(self) -> None:
        request = self._waiting
        if request is not None and self.available:
            first, size = self._next_offset, min(self.available, request.max_records)
            self._next_offset, self.available, self._waiting = first + size, self.available - size, None
            self.held.add((first, first + size - 1))
            self._answer(request, acquired=(AcquiredRange(first, first + size - 1, 1),))

    def _acknowledge(self, request: SharePartitionRequest) -> None:
        ranges = [(batch.first_offset, batch.last_offset) for batch in request.batches]
        if not all(any(a <= first and last <= b for a, b in self.held) for first, last in ranges):
            self._answer(request, ErrorCode.INVALID_RECORD_STATE)
        elif request.is_renew_ack:
            self.renewed += ranges
            self._answer(request)
        else:
            self.settled += [(*r, batch.acknowledge_types[0]) for r, batch in zip(ranges, request.batches, strict=True)]
            self._answer(request)

    def _unacquire(self, request: SharePartitionRequest) -> None:
        assert set(request.ranges) <= self.held
        self.held -= set(request.ranges)

    def _answer(
        self, request: SharePartitionRequest, code: int = ErrorCode.NONE, acquired: tuple[AcquiredRange, ...] = ()
    ) -> None:
        deadline_ms = int(time.time() * 1000) + self.lock_ms
        if request.reply_to:
            self._responses.append(
                SharePartitionResponse(
                    request.type, request.id, "m", "g", "t", 0, "m", code, "why", acquired, deadline_ms
                )
            )

    def sent(self, kind: str) -> list[SharePartitionRequest]:
        return [r for r in self.requests if isinstance(r, SharePartitionRequest) and r.type == kind]


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

    def claim(self) -> OfferedBatch:
        with self.changed:
            assert self.changed.wait_for(lambda: self._offer, PATIENCE_S)
            claimed, self._offer = self._offer, None
            assert claimed is not None
            return claimed


Start = Callable[[FakeJob], tuple[Member, Offers]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Member] = []

    def make(job: FakeJob) -> tuple[Member, Offers]:
        offers = Offers()
        settings = MemberSettings("g", "m", ("t",), 100, acknowledge_timeout_ms=PATIENCE_S * 1000)
        member = Member(settings, job, offers, failed.set)
        started.append(member)
        member.start()
        return member, offers

    failed = threading.Event()
    yield make
    for member in started:
        member.close()


def test_it_joins_asks_offers_acknowledges_and_leaves(start: Start) -> None:
    job = FakeJob(available=100)
    member, offers = start(job)
    batch = offers.claim()
    assert [(r.first_offset, r.last_offset) for r in batch.ranges] == [(0, 99)]
    assert member.begin(batch) == batch.ranges
    member.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT))
    member.finish(batch.seq)
    member.close()
    assert job.settled == [(0, 99, AcknowledgeType.ACCEPT)]
    assert job.is_closed
    last = job.requests[-1]
    assert isinstance(last, ShareGroupRequest)
    assert last.member_epoch == -1
    assert member.redelivered == 0


def test_the_next_batch_is_on_offer_while_one_runs(start: Start) -> None:
    job = FakeJob(available=250)
    member, offers = start(job)
    first = offers.claim()
    member.begin(first)
    assert offers.claim().ranges[0].first_offset == 100


def test_it_holds_no_more_than_it_needs(start: Start) -> None:
    job = FakeJob(available=1_000_000)
    member, offers = start(job)
    member.begin(offers.claim())
    assert offers.claim()
    job.wait_for(lambda: sum(last - first + 1 for first, last in job.held) == 400)  # two batches run, two wait
    assert len(job.sent("fetch")) <= 4


def test_what_is_not_used_is_given_back_at_the_end(start: Start) -> None:
    job = FakeJob(available=200)
    member, offers = start(job)
    member.begin(batch := offers.claim())
    member.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT))
    member.close()
    [unacquired] = job.sent("unacquire")
    assert [tuple(r) for r in unacquired.ranges] == [(100, 199)]


def test_locks_are_renewed_while_a_batch_runs(start: Start) -> None:
    job = FakeJob(available=100, lock_ms=400)
    member, offers = start(job)
    member.begin(offers.claim())
    job.wait_for(lambda: job.renewed.count((0, 99)) >= 3)


def test_an_acknowledgement_that_comes_too_late_is_counted(start: Start) -> None:
    job = FakeJob(available=100)
    member, offers = start(job)
    batch = offers.claim()
    job.held.clear()
    member.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT))
    member.close()
    assert (member.redelivered, job.settled) == (1, [])


def test_a_batch_of_an_earlier_process_runs_with_what_is_still_held(start: Start) -> None:
    job = FakeJob()
    job.held = {(0, 9), (20, 29)}
    member, _ = start(job)
    ranges = tuple(HeldRange("t", 0, first, first + 9, 1, 0) for first in (0, 10, 20))
    held = member.begin(OfferedBatch(7, "earlier", ranges))
    assert [r.first_offset for r in held] == [0, 20]
    assert all(r.lock_deadline_ms > 0 for r in held)
    member.acknowledge(acknowledge_all(held, AcknowledgeType.ACCEPT))
    member.finish(7)
    member.close()
    assert job.settled == [(0, 9, 1), (20, 29, 1)]


def test_a_grant_to_an_earlier_process_is_released(start: Start) -> None:
    job = FakeJob()
    job.held = {(50, 59)}
    start(job)
    job.respond(
        SharePartitionResponse(
            "fetch", "earlier-1", "m", "g", "t", 0, "m", acquired=(AcquiredRange(50, 59, 1),), lock_deadline_ms=1
        )
    )
    job.wait_for(lambda: job.settled)
    assert job.settled == [(50, 59, AcknowledgeType.RELEASE)]


def test_a_demand_stands_until_there_are_records(start: Start) -> None:
    job = FakeJob()
    _, offers = start(job)
    job.wait_for(lambda: job.sent("fetch"))
    job.produce(10)
    assert offers.claim().ranges[0].size == 10
    job.wait_for(lambda: len(job.sent("fetch")) == 2)


def test_a_refusal_for_good_is_told(start: Start) -> None:
    job = FakeJob()
    job.refuse_joins_with = ErrorCode.INVALID_REQUEST
    member, _ = start(job)
    member.close()
    assert isinstance(member.failure, RequestError)
    assert member.failure.code is ErrorCode.INVALID_REQUEST
