"""A member without threads, driven by one loop as in a simulation."""

from collections.abc import Sequence

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.consumer_metrics import COORDINATOR, FETCH_MANAGER, SHARE
from sharegroup.member.batch_calls import ResponseTimeoutError
from sharegroup.member.member_logic import (
    LINGER_MS,
    MISSING_TOPIC_INTERVAL_MS,
    MemberLogic,
    MemberSettings,
    has_renewal,
)
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_partition_requests import FetchRequest, UnacquireRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.spark.share_consumer.acknowledgements import acknowledge_all
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch, ranges_delivered_before, transaction_id
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.unit.core.operators.shard_driver import GROUP, LOCK_MS, T0, TOPIC

from .in_memory_job import HEARTBEAT_MS, TOPIC_ID, InMemoryJob, Offers

ANSWER_MS = 20_000


class Drive:
    """A process of member m and the job, advanced in steps."""

    def __init__(
        self, job: InMemoryJob, incarnation: str = "now", max_records: int = 100, name: str | None = None
    ) -> None:
        self.job, self.offers = job, Offers()
        settings = MemberSettings(
            GROUP, "m", (TOPIC,), max_records, acknowledge_timeout_ms=ANSWER_MS, group_instance_id=name
        )
        self.logic = MemberLogic(settings, self.offers, incarnation)
        self.logic.mark_open()

    def step(self) -> None:
        now_ms = self.job.now_ms()
        if self.logic.metadata_is_due(now_ms):
            self.logic.handle_metadata(self.job.topics_metadata([TOPIC]), now_ms)
        requests = self.logic.step(self.job.take("m", 0), now_ms)
        self.job.send(requests, wait=has_renewal(requests))
        self.logic.mark_appended(requests, now_ms)

    def claim(self) -> OfferedBatch:
        for _ in range(3):  # joined, acquired, offered
            self.step()
        return self.offers.claim()

    def begin(self, batch: OfferedBatch) -> tuple[HeldRange, ...]:
        beginning = self.logic.begin(batch, self.job.now_ms())
        for _ in range(4):  # a renewal is sent and has a response; again in parts if it was rejected
            ranges = beginning.poll(self.job.now_ms())
            if ranges is not None:
                return ranges
            self.step()
        raise AssertionError("no response")

    def accept(self, ranges: Sequence[HeldRange]) -> None:
        accepted = acknowledge_all(ranges, AcknowledgeType.ACCEPT)
        acknowledging = self.logic.acknowledge(accepted, ranges, self.job.now_ms())
        self.job.send(acknowledging.due_requests(self.job.now_ms()), wait=True)
        acknowledging.mark_appended()

    def heartbeats(self) -> list[HeartbeatRequest]:
        return [request for request in self.job.requests if isinstance(request, HeartbeatRequest)]


@pytest.fixture
def job() -> InMemoryJob:
    return InMemoryJob(records=100)


def held(first: int, last: int) -> HeldRange:
    return HeldRange(TOPIC, TOPIC_ID, 0, first, last, 1, T0 + LOCK_MS)


def test_a_batch_from_its_offer_to_its_end() -> None:
    drive = Drive(InMemoryJob(records=100))
    batch = drive.claim()
    assert drive.logic.begin(batch, drive.job.now_ms()).poll(drive.job.now_ms()) == batch.ranges
    acknowledging = drive.logic.acknowledge(
        acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT), batch.ranges, drive.job.now_ms()
    )
    assert (acknowledging.may_append(drive.job.now_ms()), acknowledging.is_done) == (True, False)
    drive.job.send(acknowledging.due_requests(drive.job.now_ms()), wait=True)
    acknowledging.mark_appended()
    assert acknowledging.is_done
    drive.logic.finish(batch.seq, drive.job.now_ms())
    assert not drive.logic.holds_batch(drive.job.now_ms())
    drive.logic.close(drive.job.now_ms())
    for _ in range(2):  # the response and the leave, then its response
        assert not drive.logic.is_over(drive.job.now_ms())
        drive.step()
    assert drive.logic.is_over(drive.job.now_ms())
    assert drive.job.log_of("accept") == [(0, 99, "m", 1)]
    last = drive.job.requests[-1]
    assert isinstance(last, HeartbeatRequest)
    assert last.member_epoch == -1


def test_an_earlier_batch_is_known_after_its_renewal() -> None:
    drive = Drive(InMemoryJob(records=10))
    drive.job.fetch("m")
    beginning = drive.logic.begin(OfferedBatch(7, "earlier", (held(0, 9),)), drive.job.now_ms())
    assert beginning.poll(drive.job.now_ms()) is None
    drive.job.advance(1_000)
    drive.step()  # sends the renewal
    assert beginning.poll(drive.job.now_ms()) is None
    drive.step()  # handles its response
    assert beginning.poll(drive.job.now_ms()) == (held(0, 9)._replace(lock_deadline_ms=T0 + LOCK_MS + 1_000),)
    assert drive.logic.holds_batch(drive.job.now_ms())
    assert [row.acquired for row in drive.job.acknowledgements(is_renew_ack=True)] == [()]  # all ranges held now


def test_a_renewal_names_the_acquired_ranges(job: InMemoryJob) -> None:
    drive = Drive(job)
    drive.begin(drive.claim())
    drive.step()
    job.advance(LOCK_MS // 2)
    drive.step()
    assert [row.acquired for row in job.acknowledgements(is_renew_ack=True)] == [((0, 99, 1),)]


def test_missing_responses_are_reported() -> None:
    drive = Drive(InMemoryJob(records=10))
    beginning = drive.logic.begin(OfferedBatch(7, "earlier", (held(0, 9),)), 0)
    assert beginning.poll(ANSWER_MS) is None
    with pytest.raises(ResponseTimeoutError, match="has not responded"):
        beginning.poll(ANSWER_MS + 1)


@pytest.mark.parametrize(
    ("records", "is_stopping", "linger_ms"), [(300, False, LINGER_MS), (300, True, 0), (120, False, 0), (100, False, 0)]
)
def test_acknowledgements_wait_for_the_fetch_that_follows(records: int, is_stopping: bool, linger_ms: int) -> None:
    drive = Drive(InMemoryJob(records=records))
    batch = drive.claim()
    ranges = drive.begin(batch)
    drive.step()
    if is_stopping:
        drive.logic.stop_offering(drive.job.now_ms())
    drive.accept(ranges)
    assert [row.linger_ms for row in drive.job.acknowledgements()] == [linger_ms]
    asked = drive.job.requests.copy()
    drive.logic.finish(batch.seq, drive.job.now_ms())
    if linger_ms:
        drive.begin(drive.offers.claim())
        drive.step()
        assert any(isinstance(request, FetchRequest) for request in drive.job.requests[len(asked) :])


def test_failed_appends_of_acknowledgements_are_retried_then_reported() -> None:
    drive = Drive(InMemoryJob(records=100))
    batch = drive.claim()
    acknowledging = drive.logic.acknowledge(acknowledge_all(batch.ranges, AcknowledgeType.ACCEPT), batch.ranges, 0)
    [request] = acknowledging.due_requests(0)
    assert acknowledging.due_requests(1_000) == []
    assert acknowledging.due_requests(ANSWER_MS) == [request]
    assert not acknowledging.is_done
    with pytest.raises(ResponseTimeoutError, match="could not be appended"):
        acknowledging.due_requests(ANSWER_MS + 1)


def test_an_acknowledgement_ignores_ranges_acquired_again(job: InMemoryJob) -> None:
    """It arrives after the locks' end, when the member's own pending fetch has acquired the same records."""
    drive = Drive(job)
    batch = drive.claim()
    drive.begin(batch)
    drive.step()  # a fetch waits behind it
    job.advance(LOCK_MS + 1)
    assert job.log_of("fetch") == [(0, 99, "m", 1), (0, 99, "m", 2)]
    drive.accept(batch.ranges)
    drive.step()
    assert job.log_of("accept") == []
    assert (drive.logic.redelivered, drive.logic.failure) == (1, None)
    assert acknowledgement_errors(drive) == 100


def test_an_unacquire_row_names_its_acquired_ranges(job: InMemoryJob) -> None:
    """Therefore it does not affect ranges acquired again meanwhile."""
    drive = Drive(job, max_records=40)
    drive.claim()
    drive.step()
    drive.logic.close(job.now_ms())
    drive.step()
    assert [row.acquired for row in job.sent(UnacquireRequest)] == [((40, 79, 1), (80, 99, 1))]
    assert [row.ranges for row in job.sent(UnacquireRequest)] == [()]


def test_a_second_rerun_can_hold_more_than_the_first(job: InMemoryJob) -> None:
    """Delta must not skip the append of the second re-run because of the first one; each has its own transaction."""
    assert [job.fetch("m", 50), job.fetch("m", 50)] == [[(0, 49, 1)], [(50, 99, 1)]]
    offered = OfferedBatch(7, "process 0", (held(0, 49), held(50, 99)))
    job.advance(LOCK_MS + 1)  # Spark restarts after the locks have expired
    assert job.fetch("another", 50) == [(0, 49, 2)]
    first = Drive(job, "process 1")
    first.claim()
    handed = [first.begin(offered)]
    job.acknowledge("another", (0, 49, AcknowledgeType.RELEASE))  # its handler failed
    first.step()  # a read-ahead fetch acquires them; the process dies after its append, before its acknowledgements
    handed.append(Drive(job, "process 2").begin(offered))
    assert [[tuple(r.acquired_range) for r in ranges] for ranges in handed] == [
        [(50, 99, 2)],
        [(0, 49, 3), (50, 99, 2)],
    ]
    reruns = [
        AcquiredBatch("query", 7, ranges, is_rerun=True, incarnation=process)
        for process, ranges in zip(("process 1", "process 2"), handed, strict=True)
    ]
    assert [ranges_delivered_before(batch) for batch in reruns] == [list(ranges) for ranges in handed]
    assert len({transaction_id(batch) for batch in reruns}) == 2


def acknowledgement_errors(drive: Drive) -> float:
    """Kafka counts records, whatever the error is."""
    return drive.logic.metric_values(drive.job.now_ms())[FETCH_MANAGER]["acknowledgements-error-total"]


def busy_with_more_waiting(job: InMemoryJob) -> tuple[Drive, OfferedBatch]:
    """Return a member that handles its first batch of 40 records and holds 60 more."""
    drive = Drive(job, max_records=40)
    batch = drive.claim()
    drive.begin(batch)
    for _ in range(2):  # it fetches more and acquires the others
        drive.step()
    assert drive.logic.holdings.waiting_records == 60
    return drive, batch


def test_a_recreated_topic_is_a_different_topic(job: InMemoryJob) -> None:
    drive, batch = busy_with_more_waiting(job)
    assert drive.logic.holds_batch(job.now_ms())
    job.make_topic_again("another", records=10)
    job.advance(MISSING_TOPIC_INTERVAL_MS)
    for _ in range(4):  # the rejected fetch, the new assignment, its ranges, its offer
        drive.step()
    assert drive.logic.assignment == {AssignedPartition(TOPIC, "another", 0)}
    assert not drive.logic.holds_batch(job.now_ms())
    assert drive.offers.wait_for_offer().ranges == (HeldRange(TOPIC, "another", 0, 0, 9, 1, job.now_ms() + LOCK_MS),)
    assert drive.logic.holdings.waiting_records == 10
    job.advance(LOCK_MS // 2)
    drive.step()
    assert job.acknowledgements(is_renew_ack=True) == []
    drive.accept(batch.ranges)
    drive.step()
    assert drive.logic.acknowledgements is None  # rejected permanently, so there is nothing to retry
    assert (drive.logic.redelivered, drive.logic.failure) == (0, None)
    assert acknowledgement_errors(drive) == 40
    assert job.log_of("accept") == []


def test_a_new_topic_id_in_the_assignment_discards_old_ranges(job: InMemoryJob) -> None:
    drive, _ = busy_with_more_waiting(job)
    job.make_topic_again("another")
    job.take("m", 0)  # the rejection of the fetch is on its way
    job.advance(HEARTBEAT_MS)
    for _ in range(2):
        drive.step()
    assert drive.logic.assignment == {AssignedPartition(TOPIC, "another", 0)}
    assert drive.logic.holdings.waiting_records == 0
    assert not drive.logic.holds_batch(job.now_ms())


def test_held_ranges_of_a_revoked_share_partition_are_handled(job: InMemoryJob) -> None:
    """Nothing is revoked: the records are locked for the member, which fetches no more of them."""
    drive, batch = busy_with_more_waiting(job)
    job.assigned_partitions = []
    job.advance(HEARTBEAT_MS)
    for _ in range(2):
        drive.step()
    assert drive.logic.assignment == frozenset()
    assert drive.logic.holdings.waiting_records == 60
    assert drive.logic.holds_batch(job.now_ms())
    asked = len(job.sent(FetchRequest))
    job.produce(10)
    for _ in range(3):
        drive.accept(batch.ranges)
        drive.logic.finish(batch.seq, drive.job.now_ms())
        drive.step()
        if drive.logic.holdings.waiting_records:
            batch = drive.claim()
            drive.begin(batch)
    accepted = {offset for first, last, *_ in job.log_of("accept") for offset in range(first, last + 1)}
    assert accepted == set(range(110)), "what its last demand brings, too"
    assert len(job.sent(FetchRequest)) == asked


def test_an_unknown_topic_id_makes_metadata_due_soon(job: InMemoryJob) -> None:
    drive = Drive(job)
    drive.claim()
    job.advance(MISSING_TOPIC_INTERVAL_MS)
    drive.step()
    looks, heartbeats = job.looks, len(drive.heartbeats())
    drive.step()
    assert (job.looks, len(drive.heartbeats())) == (looks, heartbeats)
    job.make_topic_again("another")
    drive.step()  # the fetch is rejected
    assert job.looks == looks
    job.advance(MISSING_TOPIC_INTERVAL_MS)
    drive.step()
    assert job.looks == looks + 1
    assert [request.topics for request in drive.heartbeats()[heartbeats:]] == [{TOPIC: TopicMetadata("another", 1)}]


def test_a_renewal_ends_when_its_topic_is_deleted(job: InMemoryJob) -> None:
    """The rejection arrives before the member learns of the new topic."""
    drive = Drive(job)
    drive.begin(drive.claim())
    job.make_topic_again("another")
    job.take("m", 0)  # the rejection of the fetch is on its way
    job.refuse_joins_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    job.advance(LOCK_MS // 2)
    for _ in range(3):
        drive.step()
        job.advance(1_000)
    assert len(job.acknowledgements(is_renew_ack=True)) == 1
    assert not drive.logic.holds_batch(job.now_ms())
    assert drive.logic.failure is None


def test_a_late_response_of_a_deleted_topic_acquires_nothing() -> None:
    job = InMemoryJob()
    drive = Drive(job)
    for _ in range(3):
        drive.step()
    [demand] = job.sent(FetchRequest)
    job.make_topic_again("another")
    job.take("m", 0)  # its rejection is on its way
    job.advance(HEARTBEAT_MS)
    for _ in range(2):
        drive.step()
    assert drive.logic.assignment == {AssignedPartition(TOPIC, "another", 0)}
    who = "m", GROUP, TOPIC, TOPIC_ID, 0, "m"
    grant = AcquiredRange(0, 9, 1)
    job.respond(FetchResponse(demand.id, *who, acquired=(grant,), lock_deadline_ms=job.now_ms() + LOCK_MS))
    drive.step()
    assert drive.logic.holdings.waiting_records == 0
    assert [row.topic_id for row in job.sent(FetchRequest)] == [TOPIC_ID, "another"]


def test_a_batch_of_a_topic_deleted_before_it_is_skipped(job: InMemoryJob) -> None:
    drive = Drive(job)
    batch = drive.claim()
    drive.step()  # detects the claim
    job.make_topic_again("another")
    job.advance(MISSING_TOPIC_INTERVAL_MS)
    for _ in range(2):
        drive.step()
    assert drive.begin(batch) == ()


def test_a_late_accept_is_rejected_even_for_finished_records(job: InMemoryJob) -> None:
    """Another member has accepted them meanwhile, and the start offset is behind them."""
    drive = Drive(job)
    ranges = drive.begin(drive.claim())
    job.release("m")
    assert job.fetch("other") == [(0, 99, 2)]
    job.acknowledge("other", (0, 99, AcknowledgeType.ACCEPT))
    job.advance(LOCK_MS + 1)
    drive.accept(ranges)
    drive.step()
    assert drive.logic.redelivered == 1


def test_acknowledgements_name_the_renewed_lock_deadline(job: InMemoryJob) -> None:
    drive = Drive(job)
    ranges = drive.begin(drive.claim())
    drive.step()
    job.advance(LOCK_MS // 2)
    drive.step()
    drive.step()
    drive.accept(ranges)
    [sent] = job.acknowledgements()
    assert sent.lock_deadline_ms == T0 + LOCK_MS // 2 + LOCK_MS


def test_an_accept_after_a_late_renewal_is_rejected(job: InMemoryJob) -> None:
    """The renewal has no response yet when the acknowledgement is sent."""
    drive = Drive(job)
    ranges = drive.begin(drive.claim())
    drive.step()
    job.release("m")
    assert job.fetch("other") == [(0, 99, 2)]
    job.acknowledge("other", (0, 99, AcknowledgeType.ACCEPT))
    job.advance(LOCK_MS + 1)
    drive.step()  # sends the renewal, whose response is not read
    drive.accept(ranges)
    drive.step()
    assert drive.logic.redelivered == 1


def test_renewed_ranges_are_held_whatever_deadline_is_named(job: InMemoryJob) -> None:
    drive = Drive(job)
    ranges = drive.begin(drive.claim())
    drive.step()
    job.advance(LOCK_MS // 2)
    drive.step()  # sends the renewal, whose response is not read
    job.advance(LOCK_MS // 2 + 1)
    drive.accept(ranges)
    [sent] = job.acknowledgements()
    assert sent.lock_deadline_ms == T0 + LOCK_MS
    assert job.log_of("accept") == [(0, 99, "m", 1)]


def test_ranges_awaited_by_a_rerun_are_not_returned(job: InMemoryJob) -> None:
    """This process has acquired the range again, and half of that lock has passed when the renewal has a response."""
    job.fetch("m", 100)
    offered = OfferedBatch(7, "process 0", (held(0, 99),))
    job.advance(LOCK_MS + 1)
    drive = Drive(job, "process 1")
    for _ in range(3):  # joined, acquired, offered, and never claimed
        drive.step()
    beginning = drive.logic.begin(offered, job.now_ms())
    drive.step()  # sends the renewal of the second delivery, whose response is not read
    job.advance(LOCK_MS // 2 + 1)
    drive.step()
    (ranges,) = (beginning.poll(job.now_ms()),)
    assert ranges is not None
    assert [tuple(part.acquired_range) for part in ranges] == [(0, 99, 2)]
    drive.accept(ranges)
    assert (job.log_of("accept"), job.sent(UnacquireRequest)) == ([(0, 99, "m", 2)], [])


def test_release_for_an_earlier_process_names_its_lock_deadline(job: InMemoryJob) -> None:
    drive = Drive(job)
    drive.step()
    who = "earlier-1", "m", GROUP, TOPIC, TOPIC_ID, 0, "m"
    until_ms = job.now_ms() + LOCK_MS
    job.respond(FetchResponse(*who, acquired=(AcquiredRange(0, 9, 1),), lock_deadline_ms=until_ms))
    drive.step()
    assert [row.lock_deadline_ms for row in job.acknowledgements()] == [until_ms]


def test_late_response_does_not_release_a_batch_that_runs_again(job: InMemoryJob) -> None:
    """The job sends a response twice after a restart. The second copy comes when the locks are renewed already."""
    earlier = Drive(job, "earlier")
    batch = earlier.claim()
    drive = Drive(job)
    drive.step()
    beginning = drive.logic.begin(batch, job.now_ms())
    job.send(drive.logic.step([], job.now_ms()), wait=True)  # the renewals
    acquired = tuple(AcquiredRange(*held.acquired_range) for held in batch.ranges)
    who = "earlier-1", "m", GROUP, TOPIC, TOPIC_ID, 0, "m"
    job.respond(FetchResponse(*who, acquired=acquired, lock_deadline_ms=LOCK_MS))
    drive.step()
    assert beginning.poll(job.now_ms())
    assert job.log_of("release") == []


def test_metrics_count_batches_requests_and_acknowledgements() -> None:
    drive = Drive(InMemoryJob(records=150))
    start_ms = drive.job.now_ms()
    for _ in range(2):
        batch = drive.claim()
        ranges = drive.begin(batch)
        drive.logic.count_batch(sum(held.last_offset - held.first_offset + 1 for held in ranges), drive.job.now_ms())
        drive.job.advance(750)
        drive.accept(ranges)
        drive.logic.finish(batch.seq, drive.job.now_ms())
        drive.job.advance(250)
    values = drive.logic.metric_values(drive.job.now_ms())
    assert values[SHARE] == {
        "last-poll-seconds-ago": 1,
        "time-between-poll-avg": 1_000,
        "time-between-poll-max": 1_000,
        "poll-idle-ratio-avg": 0.25,
    }
    assert values[COORDINATOR]["heartbeat-total"] >= 1
    assert values[COORDINATOR]["rebalance-total"] == 1
    fetches = values[FETCH_MANAGER]
    assert (fetches["records-consumed-total"], fetches["records-per-request-max"]) == (150, 100)
    assert (fetches["acknowledgements-send-total"], fetches["acknowledgements-error-total"]) == (150, 0)
    assert fetches["fetch-total"] >= 1
    assert "bytes-consumed-total" not in fetches
    assert drive.job.now_ms() - start_ms == 2_000


def test_response_times_are_those_of_the_first_response() -> None:
    drive = Drive(InMemoryJob(records=10))
    drive.step()
    [heartbeat] = drive.heartbeats()
    responses = drive.job.take("m", 0)
    drive.job.advance(300)
    drive.logic.step(responses, drive.job.now_ms())
    drive.job.advance(300)
    drive.logic.step(responses, drive.job.now_ms())
    coordinator = drive.logic.metric_values(drive.job.now_ms())[COORDINATOR]
    assert heartbeat.id
    assert (coordinator["heartbeat-total"], coordinator["heartbeat-response-time-max"]) == (1, 300)


def test_renewal_of_a_finished_batch_does_not_count_for_the_next() -> None:
    drive = Drive(InMemoryJob(records=200))
    job, logic = drive.job, drive.logic
    first = drive.claim()
    drive.begin(first)
    for _ in range(3):
        drive.step()
    job.advance(LOCK_MS // 2)
    requests = logic.step(job.take("m", 0), job.now_ms())  # the member's thread is about to append the renewal
    assert has_renewal(requests)
    drive.accept(first.ranges)  # meanwhile, Spark's thread finishes the batch and begins the next one
    logic.finish(first.seq, job.now_ms())
    logic.holdings.step(job.now_ms())
    second = drive.offers.claim()
    assert second.seq != first.seq
    drive.begin(second)
    job.send(requests, wait=True)
    logic.mark_appended(requests, job.now_ms())
    running = logic.holdings.running
    assert running is not None
    job.advance(LOCK_MS)  # Kafka is unavailable
    assert logic.holdings.brokers_ms(job.now_ms()) > running.lock_deadline_ms
    assert not logic.holds_batch(job.now_ms())
