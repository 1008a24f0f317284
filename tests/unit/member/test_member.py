"""The member's thread with the in-memory job; Kafka is a list, the offer file a variable."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sharegroup.client.prometheus import ConsumerCollector
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients import outage_log
from sharegroup.member import member_logic, member_loop
from sharegroup.member.acknowledgement_round import RESPONSE_TIMEOUT_MS
from sharegroup.member.member import Member
from sharegroup.member.member_logic import COMMIT_MS, MemberLogic, MemberSettings
from sharegroup.member.ranges import HeldRange, OfferedBatch
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_partition_requests import FetchRequest, UnacquireRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.spark.share_consumer.acknowledgements import acknowledge_all
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch, ranges_delivered_before
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.unit.core.operators.shard_driver import GROUP, LOCK_MS, T0, TOPIC

from .in_memory_job import PATIENCE_S, TOPIC_ID, InMemoryJob, MemberChannel, Offers

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
#: After this time a member's locks have expired, and its pending fetch counts as abandoned.
STANDSTILL_MS = 3 * LOCK_MS
DAY_MS = 86_400_000
Start = Callable[..., tuple[Member, Offers]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Member] = []
    failed = threading.Event()

    def make(job: InMemoryJob, **settings: Any) -> tuple[Member, Offers]:
        offers = Offers()
        wanted = {"max_records": 100, "acknowledge_timeout_ms": PATIENCE_S * 1000} | settings
        ahead_ms = wanted.pop("ahead_ms", 0)
        channel = MemberChannel(job, "m", ahead_ms)
        of_member = MemberSettings(GROUP, "m", (TOPIC,), **wanted)
        member = Member(of_member, channel, offers, failed.set, lambda: job.now_ms() - ahead_ms)
        started.append(member)
        member.start()
        return member, offers

    yield make
    for member in started:
        member.close()


def logic_of(member: Member) -> MemberLogic:
    with member._shared.turn() as (logic, _):
        return logic


def wait_for_renewal(member: Member) -> None:
    """Wait until the member has processed the response to its renewal."""
    with member._shared.turn() as (logic, _):
        assert member._shared._stepped.wait_for(lambda: logic.renewal is None, PATIENCE_S)


def held(first: int, last: int, until: int = LOCK_MS, count: int = 1) -> HeldRange:
    return HeldRange(TOPIC, TOPIC_ID, 0, first, last, count, T0 + until)


def of_an_earlier_process(*ranges: HeldRange) -> OfferedBatch:
    return OfferedBatch(7, "earlier", ranges)


def offsets(ranges: tuple[HeldRange, ...]) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count)."""
    return [(r.first_offset, r.last_offset, r.delivery_count) for r in ranges]


def is_looked_up(ranges: tuple[HeldRange, ...]) -> bool:
    """Return whether `DeltaSink` checks all of a repeated batch."""
    return ranges_delivered_before(AcquiredBatch("q", 1, ranges, is_rerun=True)) == list(ranges)


def test_a_member_joins_fetches_offers_acknowledges_and_leaves(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    batch = offers.claim()
    assert offsets(batch.ranges) == [(0, 99, 1)]
    assert member.begin(batch) == batch.ranges
    member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    member.finish(batch.seq)
    member.close()
    assert job.log_of("accept") == [(0, 99, "m", 1)]
    assert job.closed == ["m"]
    last = job.requests[-1]
    assert isinstance(last, HeartbeatRequest)
    assert last.member_epoch == -1
    assert member.redelivered == 0


def test_prometheus_gets_the_metrics_of_a_member(start: Start) -> None:
    member, offers = start(InMemoryJob(records=100))
    offers.claim()
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(member))
    text = generate_latest(registry).decode()
    assert f'kafka_consumer_share_coordinator_metrics_rebalance_total{{group="{GROUP}",member_id="m"}} 1.0' in text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert len(names) == sum(map(len, member.metrics().values())) == 24


def test_the_next_batch_is_on_offer_while_one_runs(start: Start) -> None:
    job = InMemoryJob(records=250)
    member, offers = start(job)
    first = offers.claim()
    member.begin(first)
    assert offers.claim().ranges[0].first_offset == 100


def test_a_member_holds_at_most_twice_its_target(start: Start) -> None:
    job = InMemoryJob(records=2_000)
    member, offers = start(job)
    member.begin(offers.claim())
    assert offers.claim()
    # two batches run, two wait
    job.wait_for(lambda: sum(last - first + 1 for first, last, *_ in job.log_of("fetch")) == 400)
    assert len(job.sent(FetchRequest)) <= 4


def test_last_attempts_of_a_read_ahead_get_their_own_batches(start: Start) -> None:
    job = InMemoryJob(records=4, delivery_count_limit=3)
    member, offers = start(job)

    def granted(count: int) -> int:
        """How many records; more than there are if the member returned some that came before the end of their batch."""
        return sum(last - first + 1 for first, last, _, found in job.log_of("fetch") if found == count)

    def through(kind: AcknowledgeType) -> list[tuple[int, int, int]]:
        batch = offers.claim()
        member.acknowledge(acknowledge_all(member.begin(batch), kind), batch.ranges)
        member.finish(batch.seq)
        return offsets(batch.ranges)

    for count in (1, 2):
        job.wait_for(lambda: granted(count) >= 4)  # noqa: B023 - called immediately
        left = 4
        while left:
            left -= sum(last - first + 1 for first, last, _ in through(RELEASE))
    job.wait_for(lambda: granted(3) >= 4)
    assert [through(ACCEPT) for _ in range(4)] == [[(offset, offset, 3)] for offset in range(4)]


def test_unused_ranges_are_returned_at_the_end(start: Start) -> None:
    job = InMemoryJob(records=200)
    member, offers = start(job)
    member.begin(batch := offers.claim())
    member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    member.close()
    assert job.log_of("unacquire") == [(100, 199, "m", 0)]


def test_a_long_unacquire_row_is_split(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_logic, "MAX_RANGES_PER_ROW", 10)
    job = InMemoryJob(records=22)
    job.fetch("another")
    job.acknowledge("another", *((offset, offset, RELEASE) for offset in range(0, 22, 2)))
    member, offers = start(job)
    offers.wait_for_offer()
    member.close()
    assert [len(row.acquired) for row in job.sent(UnacquireRequest)] == [10, 1]


@pytest.mark.parametrize("ahead_ms", [0, T0, -DAY_MS], ids=["one clock", "a clock since the boot", "a day behind"])
def test_locks_are_renewed_while_a_batch_runs(start: Start, ahead_ms: int) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job, ahead_ms=ahead_ms)
    member.begin(offers.claim())
    for renewals in range(1, 4):
        job.advance(LOCK_MS // 2)
        job.wait_for(lambda n=renewals: len(job.log_of("renew")) == n)
        wait_for_renewal(member)  # at this time, from which the time of the next renewal is counted
    assert job.log_of("lock_timeout") == []
    assert member.holds_batch()


@pytest.mark.parametrize("ahead_ms", [0, T0, -DAY_MS], ids=["one clock", "a clock since the boot", "a day behind"])
def test_a_batch_that_takes_too_long_loses_its_records(
    start: Start, caplog: pytest.LogCaptureFixture, ahead_ms: int
) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job, max_processing_ms=LOCK_MS, ahead_ms=ahead_ms)
    batch = offers.claim()
    member.begin(batch)
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: job.log_of("renew"))
    wait_for_renewal(member)  # otherwise the batch is no longer held when the first locks expire
    assert member.holds_batch()
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: not member.holds_batch())  # before the locks expire: no other member has the records yet
    assert "max_processing_ms" in caplog.text
    assert job.fetch("another") == []
    with job.changed:
        job.advance(STANDSTILL_MS)
        assert job.fetch("another") == [(0, 99, 2)]
    assert len(job.log_of("renew")) == 1
    member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    member.finish(batch.seq)
    member.close()
    assert (member.redelivered, job.log_of("accept")) == (1, [])


def test_a_suspended_member_detects_its_lost_locks(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    member.begin(offers.claim())
    with job.changed:
        job.advance(STANDSTILL_MS)
        assert not member.holds_batch()
        assert job.fetch("another") == [(0, 99, 2)]
        job.acknowledge("another", (0, 99, ACCEPT))
    job.wait_for(lambda: job.acknowledgements(is_renew_ack=True))
    job.wait_for(lambda: logic_of(member).renewal is None)
    assert not member.holds_batch()  # its renewal was no error, because the records are finished


def test_a_renewal_that_cannot_be_appended_keeps_no_lock(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    member.begin(offers.claim())
    job.is_reachable = False
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: job.given_up)
    assert member.holds_batch()
    job.advance(LOCK_MS // 2 - COMMIT_MS)  # a sink that checks now and commits after that would be too late
    assert not member.holds_batch()
    job.is_reachable = True


def lines_of_an_outage(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about outages, without the error and the duration."""
    lines = [record.getMessage() for record in caplog.records if record.pathname == outage_log.__file__]
    return [line.partition(": Kafka")[0].partition(" after ")[0] for line in lines]


def test_an_outage_is_one_log_line_at_its_start_and_one_at_its_end(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(member_loop, "PAUSE_S", 0.01)
    job = InMemoryJob(records=100)
    member, offers = start(job)
    member.begin(offers.claim())
    job.is_reachable = False
    for after_ms in (LOCK_MS // 2, RESPONSE_TIMEOUT_MS):
        given_up = job.given_up
        job.advance(after_ms)
        job.wait_for(lambda: job.given_up > given_up)  # noqa: B023 - called immediately
    job.is_reachable = True
    job.advance(LOCK_MS)
    member.close()
    assert lines_of_an_outage(caplog) == ["the member cannot reach Kafka; retrying", "the member reaches Kafka again"]


def test_an_outage_of_acknowledgements_is_two_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    job = InMemoryJob()
    settings = MemberSettings(GROUP, "m", (TOPIC,), max_records=100)
    member = Member(settings, MemberChannel(job, "m"), Offers(), lambda: None, job.now_ms)
    row = HeartbeatRequest("1", GROUP, "m", member_id="m", member_epoch=-1)  # any row
    job.is_reachable = False
    assert [member._send([row]) for _ in range(3)] == [False] * 3
    job.is_reachable = True
    assert [member._send([row]) for _ in range(2)] == [True] * 2
    assert lines_of_an_outage(caplog) == [
        "member m: failed to append acknowledgements; retrying",
        "member m: acknowledgements are appended again",
    ]


def test_records_before_the_log_start_are_no_lost_locks(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    member.begin(offers.claim())
    job.delete_records(below=50)
    for renewals in range(1, 3):
        job.advance(LOCK_MS // 2)
        job.wait_for(lambda n=renewals: len(job.log_of("renew")) == n)
        wait_for_renewal(member)
    assert job.log_of("renew") == 2 * [(50, 99, "m", 1)]
    assert member.holds_batch()


def test_lost_records_acquired_again_during_their_batch_are_returned(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    member.begin(offers.claim())
    assert member.holds_batch()
    job.release("m")  # as if its heartbeats were lost
    job.wait_for(lambda: job.log_of("unacquire"))
    assert job.log_of("unacquire") == [(0, 99, "m", 1)]
    assert not member.holds_batch()
    job.produce(100)
    assert job.fetch("another", 200) == [(0, 99, 2), (100, 199, 1)]  # the member does not fetch any either


def test_late_acknowledgements_are_counted(start: Start) -> None:
    job = InMemoryJob(records=100)
    member, offers = start(job)
    batch = offers.claim()
    with job.changed:
        job.advance(STANDSTILL_MS)
        job.fetch("another")
    member.acknowledge(acknowledge_all(batch.ranges, ACCEPT), batch.ranges)
    member.close()
    assert (member.redelivered, job.log_of("accept")) == (1, [])


def test_an_earlier_batch_runs_with_the_ranges_still_held(start: Start) -> None:
    """The other records were accepted before the crash but not committed by Spark; they are not handled again."""
    job = InMemoryJob(records=40)
    job.fetch("m")
    job.acknowledge("m", (0, 9, ACCEPT), (20, 29, ACCEPT))
    member, _ = start(job)
    job.advance(LOCK_MS // 2)
    batch = of_an_earlier_process(held(0, 9), held(10, 19), held(20, 29), held(30, 39))
    found = member.begin(batch)
    assert found == (held(10, 19, until=LOCK_MS * 3 // 2), held(30, 39, until=LOCK_MS * 3 // 2))
    member.acknowledge(acknowledge_all(found, ACCEPT), found)
    member.finish(7)
    member.close()
    assert job.log_of("accept")[2:] == [(10, 19, "m", 1), (30, 39, "m", 1)]


def test_a_repeated_batch_skips_records_finished_by_others(start: Start) -> None:
    job = InMemoryJob(records=10)
    job.fetch("m")
    job.advance(LOCK_MS + 1)
    assert job.fetch("another", 5) == [(0, 4, 2)]
    job.acknowledge("another", (0, 4, ACCEPT))
    member, offers = start(job)
    assert offsets(offers.wait_for_offer().ranges) == [(5, 9, 2)]
    found = member.begin(of_an_earlier_process(held(0, 9)))  # partly finished, so its renewal is no error
    assert offsets(found) == [(5, 9, 2)]
    assert is_looked_up(found)


def test_a_repeated_batch_finished_by_others_is_empty(start: Start) -> None:
    job = InMemoryJob(records=10)
    job.fetch("m")
    job.advance(LOCK_MS + 1)
    job.fetch("another")
    job.acknowledge("another", (0, 9, ACCEPT))
    member, _ = start(job)
    assert member.begin(of_an_earlier_process(held(0, 9))) == ()


def test_a_repeated_batch_has_current_delivery_counts(start: Start) -> None:
    """Another member acquired and released the records, and they are back before Spark's query begins."""
    job = InMemoryJob(records=20)
    assert job.fetch("m", 10) == [(0, 9, 1)]
    job.advance(LOCK_MS + 1)
    assert job.fetch("another", 10) == [(0, 9, 2)]
    job.acknowledge("another", (0, 9, RELEASE))
    member, offers = start(job)
    assert offsets(offers.wait_for_offer().ranges) == [(0, 9, 3), (10, 19, 1)]
    found = member.begin(of_an_earlier_process(held(0, 9)))
    assert offsets(found) == [(0, 9, 3)]
    assert offsets(offers.claim().ranges) == [(10, 19, 1)]


def test_sink_checks_repeated_batches_and_redelivered_records() -> None:
    ranges = (held(0, 9), held(10, 19, count=2))
    assert is_looked_up(ranges)
    assert ranges_delivered_before(AcquiredBatch("q", 1, ranges)) == [ranges[1]]


def test_a_repeated_batch_is_skipped_without_renewals(start: Start) -> None:
    """Others may have records that the earlier process released, whatever the end of its lock."""
    job = InMemoryJob(records=600, renew_acknowledge_enable=False)
    job.fetch("m", 600)
    member, _ = start(job)
    job.advance(LOCK_MS // 2)
    batch = of_an_earlier_process(*(held(offset, offset) for offset in range(0, 600, 2)))
    assert member.begin(batch) == ()
    assert len(job.acknowledgements(is_renew_ack=True)) == 1


def test_without_renewals_a_batch_is_held_until_its_locks_end(start: Start) -> None:
    job = InMemoryJob(records=100, renew_acknowledge_enable=False)
    member, offers = start(job)
    member.begin(first := offers.claim())
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: (running := logic_of(member).holdings.running) is not None and not running.renewable)
    assert member.holds_batch()
    job.advance(LOCK_MS // 2)
    assert not member.holds_batch()
    assert len(job.acknowledgements(is_renew_ack=True)) == 1
    member.acknowledge(acknowledge_all(first.ranges, ACCEPT), first.ranges)
    member.finish(first.seq)
    job.configure(renew_acknowledge_enable=True)
    job.produce(100)
    member.begin(offers.claim())
    job.advance(LOCK_MS // 2)
    job.wait_for(lambda: job.log_of("renew"))


def test_ranges_acquired_by_an_earlier_process_are_released(start: Start) -> None:
    job = InMemoryJob(records=60)
    job.fetch("m", 60)
    start(job)
    job.respond(
        FetchResponse(
            "earlier-1",
            "m",
            GROUP,
            TOPIC,
            TOPIC_ID,
            0,
            "m",
            acquired=(AcquiredRange(50, 59, 1),),
            lock_deadline_ms=1,
        )
    )
    job.wait_for(lambda: job.log_of("release"))
    assert job.log_of("release") == [(50, 59, "m", 1)]


def test_an_old_response_does_not_release_ranges_held_again(start: Start) -> None:
    """A response may arrive twice; this one contains ranges of an earlier delivery."""
    job = InMemoryJob(records=10)
    _, offers = start(job)
    offers.wait_for_offer()
    old = FetchResponse(
        "earlier-1",
        "m",
        GROUP,
        TOPIC,
        TOPIC_ID,
        0,
        "m",
        acquired=(AcquiredRange(0, 9, 1),),
        lock_deadline_ms=1,
    )
    job.respond(old)
    job.wait_for(lambda: old not in job._responses["m"])
    job.produce(1)
    assert offers.wait_for_offer().ranges[0] == held(0, 9)
    assert job.log_of("release") == []


def test_a_fetch_waits_until_there_are_records(start: Start) -> None:
    job = InMemoryJob()
    _, offers = start(job)
    job.wait_for(lambda: job.sent(FetchRequest))
    job.produce(10)
    assert offers.claim().ranges[0].size == 10
    job.wait_for(lambda: len(job.sent(FetchRequest)) == 2)


def test_a_permanent_rejection_is_reported(start: Start) -> None:
    job = InMemoryJob()
    job.refuse_joins_with = ErrorCode.INVALID_REQUEST
    member, _ = start(job)
    member.close()
    assert isinstance(member.failure, RequestError)
    assert member.failure.code is ErrorCode.INVALID_REQUEST
