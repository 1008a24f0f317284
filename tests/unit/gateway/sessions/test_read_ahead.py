"""The credit of one member: its growth, its reduction and unacquired records; then a fast and a slow client."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from sharegroup.gateway.sessions.credit import Credit
from sharegroup.gateway.sessions.demands import FetchDemand
from sharegroup.gateway.sessions.read_ahead import ROUND_LOST_AFTER_MS, ReadAhead
from sharegroup.types import AcquiredRange, OffsetRange
from tests.params import thorough

WANTED = 500
FIRST = 125  # largest delivery of a new member
LOCK_MS = 30_000
LOST_MS = 60_000
TRIP_MS = 500
LINGER_MS = 1_000


@pytest.fixture
def ahead() -> ReadAhead:
    return ReadAhead(1_000_000, LOCK_MS, LOST_MS)


def arrive(ahead: ReadAhead, demand_id: str, first: int, records: int, now_ms: int) -> bool:
    ranges = [AcquiredRange(first, first + records - 1, 1)] if records else []
    return ahead.add_response(demand_id, ranges, now_ms + LOCK_MS, now_ms)


def take(ahead: ReadAhead, records: int, now_ms: int) -> int | None:
    """Send the next records in response to the client's fetch."""
    first = ahead.ranges(1)[0].first_offset
    return ahead.remove([AcquiredRange(first, first + records - 1, 1)], [], now_ms)


def reading_ahead(now_ms: int = 1_000, linger_ms: int = 0) -> ReadAhead:
    """Return a member that consumed two fetches in 5 ms each, got a full response and waits since `now_ms`."""
    ahead = ReadAhead(1_000_000, LOCK_MS, LOST_MS, linger_ms=linger_ms)
    ahead.begin_wait(0)
    ahead.record_demand("d0", 2 * WANTED, 0)
    assert ahead.records_to_request(0, WANTED) is None
    assert arrive(ahead, "d0", 0, 2 * WANTED, now_ms - 10)
    take(ahead, WANTED, now_ms - 10)
    take(ahead, WANTED, now_ms - 5)
    ahead.begin_wait(now_ms)
    return ahead


# -- demands ---------------------------------------------------------------------------------------------------------


def test_first_demand_is_the_fetch_size_and_one_stands(ahead: ReadAhead) -> None:
    assert ahead.records_to_request(0, WANTED) is None  # no fetch waits
    ahead.begin_wait(1)
    assert ahead.records_to_request(1, 50) == 50
    ahead.record_demand("d", 50, 1)
    assert ahead.records_to_request(2, 50) is None
    assert arrive(ahead, "d", 0, 3, 10)
    assert ahead.buffered == 3


def test_demand_for_one_round_replaces_a_standing_one(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("standing", 50, 0)
    assert ahead.records_to_request(1, 50, is_round=True) == 50
    ahead.record_demand("round", 50, 1, is_round=True)
    assert ahead.records_to_request(ROUND_LOST_AFTER_MS, 50, is_round=True) is None
    assert ahead.records_to_request(ROUND_LOST_AFTER_MS, 50) is None
    assert ahead.records_to_request(ROUND_LOST_AFTER_MS + 1, 50, is_round=True) == 50


def test_demand_does_not_exceed_the_lock_limit() -> None:
    ahead = ReadAhead(200, LOCK_MS, LOST_MS)
    ahead.credit.record_delivery(1, 0)
    ahead.begin_wait(0)
    assert ahead.records_to_request(0, WANTED) == 200


def test_new_member_has_no_read_ahead(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("d", WANTED, 0)
    arrive(ahead, "d", 0, WANTED, TRIP_MS)
    assert take(ahead, WANTED, TRIP_MS) == TRIP_MS + LOCK_MS
    assert ahead.records_to_request(TRIP_MS, WANTED) is None


def test_very_slow_member_has_no_read_ahead() -> None:
    ahead = ReadAhead(1_000_000, LOCK_MS, LOST_MS)
    ahead.begin_wait(0)
    ahead.record_demand("d0", 1, 0)
    arrive(ahead, "d0", 0, 1, TRIP_MS)
    take(ahead, 1, TRIP_MS)
    ahead.begin_wait(TRIP_MS + LOCK_MS // 2)
    assert ahead.records_to_request(LOCK_MS, WANTED) == 1
    ahead.record_demand("d1", 1, LOCK_MS)
    arrive(ahead, "d1", 1, 1, LOCK_MS)
    take(ahead, 1, LOCK_MS)
    assert ahead.records_to_request(LOCK_MS, WANTED) is None


def test_first_delivery_of_a_member_is_small() -> None:
    ahead = ReadAhead(10_000, LOCK_MS, LOST_MS)
    ahead.begin_wait(0)
    assert ahead.records_to_request(0, WANTED) == FIRST
    assert ahead.records_to_request(0, 10) == 10
    ahead.record_demand("d", FIRST, 0)
    arrive(ahead, "d", 0, FIRST, TRIP_MS)
    assert ahead.credit.max_records_now(WANTED, TRIP_MS) == FIRST
    take(ahead, FIRST, TRIP_MS)
    assert ahead.credit.max_records_now(WANTED, 2 * TRIP_MS) == WANTED
    ahead.begin_wait(2 * TRIP_MS)
    assert ahead.records_to_request(2 * TRIP_MS, WANTED) == WANTED


def test_shared_partition_limits_delivery_to_half_of_the_share() -> None:
    ahead = reading_ahead()  # without the limit, the target would be 32 times as large
    ahead.credit.share_locks(2_000, 4)
    assert ahead.credit.max_records_now(WANTED, 1_000) == 250
    assert ahead.credit.max_records_now(10, 1_000) == 10
    assert ahead.records_to_request(1_000, WANTED) == 500
    ahead.credit.share_locks(2_000, 1)
    assert ahead.credit.max_records_now(WANTED, 1_000) == WANTED
    ahead.credit.share_locks(2_000, 3_000)
    assert ahead.credit.max_records_now(WANTED, 1_000) == 1


def test_a_target_grows_32_fold_at_most() -> None:
    ahead = reading_ahead()  # 100 records a ms, 990 ms a round trip: 297,000 would be right
    assert ahead.records_to_request(1_000, WANTED) == 32 * WANTED
    ahead.record_demand("d1", 32 * WANTED, 1_000)
    arrive(ahead, "d1", 1_000, 32 * WANTED, 1_010)
    assert ahead.credit.target == 32 * WANTED


def test_a_first_demand_may_be_larger_than_the_fetch() -> None:
    ahead = ReadAhead(10_000, LOCK_MS, LOST_MS, min_records=4_000)
    ahead.begin_wait(0)
    assert ahead.records_to_request(0, WANTED) == 4_000
    ahead.credit.record_delivery(1, 0)
    assert ahead.records_to_request(0, 5_000) == 5_000
    ahead = ReadAhead(3_000, LOCK_MS, LOST_MS, min_records=4_000)
    ahead.begin_wait(0)
    assert ahead.records_to_request(0, WANTED) == 3_000


def test_target_grows_once_per_full_response() -> None:
    ahead = reading_ahead()
    assert [ahead.records_to_request(1_000, WANTED), ahead.records_to_request(1_000, WANTED)] == [32 * WANTED] * 2


def test_target_is_limited_to_two_fifths_of_the_lock() -> None:
    ahead = ReadAhead(1_000_000, 120, LOST_MS)
    ahead.begin_wait(0)
    ahead.record_demand("d0", WANTED, 0)
    arrive(ahead, "d0", 0, WANTED, 990)
    take(ahead, WANTED, 990)
    ahead.begin_wait(1_010)  # 25 records a ms
    assert ahead.records_to_request(1_010, WANTED) == 1_200


def test_a_demand_ahead_is_sent_when_less_than_half_is_left() -> None:
    ahead = reading_ahead()
    ahead.record_demand("d1", 32 * WANTED, 1_000)
    ahead.records_to_request(1_000, WANTED)
    arrive(ahead, "d1", 1_000, WANTED, 2_000)  # not full: no growth, and half the target
    target = ahead.credit.target
    assert target == WANTED
    take(ahead, 250, 2_001)
    assert ahead.records_to_request(2_001, WANTED) is None
    take(ahead, 1, 2_002)
    assert ahead.records_to_request(2_002, WANTED) == 251


def test_empty_buffer_after_a_demand_doubles_the_target() -> None:
    ahead = ReadAhead(1_000_000, LOCK_MS, LOST_MS)
    now = 0
    ahead.begin_wait(now)
    ahead.record_demand("d0", WANTED, now)
    arrive(ahead, "d0", 0, WANTED, 100)
    take(ahead, WANTED, 100)
    ahead.begin_wait(2_100)  # 0.25 a ms: it takes 25 in a round trip, 3,000 in two fifths of the lock
    assert ahead.records_to_request(2_100, WANTED) == WANTED
    ahead.record_demand("d1", WANTED, 2_100)
    arrive(ahead, "d1", 500, WANTED, 2_200)
    take(ahead, WANTED, 2_200)
    assert ahead.records_to_request(2_200, WANTED) == WANTED  # ahead
    ahead.record_demand("d2", WANTED, 2_200)
    ahead.begin_wait(4_200)
    arrive(ahead, "d2", 1_000, WANTED, 4_400)  # this one took longer
    take(ahead, WANTED, 4_400)
    assert ahead.records_to_request(4_400, WANTED) == 2 * WANTED


def test_response_less_than_half_full_halves_the_target() -> None:
    ahead = reading_ahead()
    ahead.records_to_request(1_000, WANTED)
    for number, (granted, target) in enumerate([(2_000, 16_000), (1_999, 8_000), (0, 4_000), (0, 2_000)]):
        ahead.record_demand(f"d{number + 1}", 4_000, 1_000)
        arrive(ahead, f"d{number + 1}", 10_000 * number, granted, 1_500)
        assert ahead.credit.target == target


def test_repeated_response_is_applied_once(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("d", WANTED, 0)
    assert arrive(ahead, "d", 0, WANTED, 10)
    take(ahead, WANTED, 10)
    assert not arrive(ahead, "d", 0, WANTED, 20)
    assert not arrive(ahead, "of another", 0, WANTED, 20)
    assert ahead.buffered == 0


def test_lost_demand_is_repeated_and_its_late_response_accepted(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("d0", WANTED, 0)
    assert ahead.records_to_request(LOST_MS - 1, WANTED) is None
    assert ahead.records_to_request(LOST_MS, WANTED) == FIRST
    ahead.record_demand("d1", FIRST, LOST_MS)
    assert arrive(ahead, "d0", 0, 10, LOST_MS + 1)
    assert ahead.records_to_request(LOST_MS + 2, WANTED) is None  # d1 stands
    assert arrive(ahead, "d1", 10, 10, LOST_MS + 3)
    assert ahead.buffered == 20


def test_rejected_demand_is_repeated_after_a_pause(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("d", WANTED, 0)
    ahead.record_failed_demand("d", 5, 100)
    assert ahead.records_to_request(104, WANTED) is None
    assert ahead.records_to_request(105, WANTED) == FIRST


# -- unacquired records ----------------------------------------------------------------------------------------------


def buffer_of_three() -> ReadAhead:
    """0..9 until 1,000, 10..19 until 2,000, 20..29 until 3,000."""
    ahead = ReadAhead(1_000_000, LOCK_MS, LOST_MS)
    for i in range(3):
        ahead.begin_wait(0)
        ahead.record_demand(f"d{i}", 10, 0)
        ahead.add_response(f"d{i}", [AcquiredRange(10 * i, 10 * i + 9, 1)], 1_000 * (i + 1), 0)
    ahead.end_wait()
    return ahead


def test_demand_is_repeated_after_a_job_restart_and_both_responses_count() -> None:
    ahead = ReadAhead(8_000, LOCK_MS, 60_000)
    ahead.begin_wait(0)
    ahead.record_demand("d1", WANTED, 0)
    assert ahead.records_to_request(10, WANTED) is None
    ahead.mark_demand_lost()
    assert ahead.records_to_request(10, WANTED) == FIRST
    ahead.record_demand("d2", FIRST, 10)
    assert arrive(ahead, "d1", 0, 10, 20)
    assert arrive(ahead, "d2", 10, 10, 30)
    assert ahead.buffered == 20


def test_ranges_with_nearly_expired_locks_are_unacquired() -> None:
    ahead = buffer_of_three()
    assert ahead.remove_expiring(799, 200) == []
    assert ahead.remove_expiring(800, 200) == [AcquiredRange(0, 9, 1)]
    assert ahead.ranges() == [AcquiredRange(10, 19, 1), AcquiredRange(20, 29, 1)]


def test_ranges_with_expired_locks_are_unacquired() -> None:
    """The job detects by their delivery counts whether it has delivered them again."""
    ahead = buffer_of_three()
    assert ahead.remove_expiring(2_000, 500) == [AcquiredRange(0, 9, 1), AcquiredRange(10, 19, 1)]
    assert ahead.ranges() == [AcquiredRange(20, 29, 1)]
    assert ahead.remove_expiring(9_000, 500) == [AcquiredRange(20, 29, 1)]


def test_expiring_locks_halve_the_target() -> None:
    ahead = reading_ahead()
    ahead.records_to_request(1_000, WANTED)
    ahead.record_demand("d1", 4_000, 1_000)
    arrive(ahead, "d1", 0, 4_000, 1_500)
    assert ahead.remove_expiring(1_500 + LOCK_MS - 5_000, 5_000) == [AcquiredRange(0, 3_999, 1)]
    assert ahead.credit.target == 8_000


def test_idle_member_loses_its_read_ahead_and_its_target() -> None:
    ahead = reading_ahead()
    ahead.records_to_request(1_000, WANTED)
    ahead.record_demand("d1", 4_000, 1_000)
    arrive(ahead, "d1", 0, 4_000, 1_500)
    take(ahead, WANTED, 1_500)
    assert ahead.remove_all() == [AcquiredRange(WANTED, 3_999, 1)]
    assert (ahead.buffered, ahead.credit.target) == (0, WANTED)
    assert ahead.records_to_request(3_600, WANTED) is None
    ahead.begin_wait(3_700)
    assert ahead.records_to_request(3_700, WANTED) == WANTED


def test_records_that_arrive_for_an_idle_member_are_unacquired() -> None:
    ahead = reading_ahead()
    arrive(ahead, "d0", 0, 0, 1_000)
    ahead.record_demand("d1", WANTED, 1_000)
    ahead.end_wait()
    assert ahead.remove_all() == []
    arrive(ahead, "d1", 0, WANTED, 3_100)
    assert ahead.remove_all() == [AcquiredRange(0, WANTED - 1, 1)]


def test_member_keeps_what_it_consumes_soon_while_others_wait() -> None:
    ahead = reading_ahead()
    ahead.record_demand("d1", 4_000, 1_000)
    arrive(ahead, "d1", 0, 4_000, 1_500)
    take(ahead, WANTED, 1_500)
    assert ahead.remove_spare(1_500, 40) == []  # 100 a ms
    assert ahead.remove_spare(1_500, 20) == [AcquiredRange(2_500, 3_999, 1)]
    assert (ahead.buffered, ahead.credit.target) == (2_000, 2_000)
    take(ahead, 1_500, 1_515)
    assert ahead.records_to_request(1_519, WANTED) is None  # not immediately
    assert ahead.records_to_request(1_520, WANTED) == 1_500


def test_waiting_member_has_nothing_to_spare() -> None:
    ahead = reading_ahead()
    ahead.record_demand("d1", WANTED, 1_000)
    arrive(ahead, "d1", 0, WANTED, 1_500)
    assert ahead.remove_spare(1_500, 0) == []
    ahead.end_wait()
    assert ahead.remove_spare(1_500, 0) == [AcquiredRange(0, WANTED - 1, 1)]


def test_end_of_a_session_unacquires_all_and_accepts_no_response() -> None:
    ahead = buffer_of_three()
    ahead.begin_wait(10)
    ahead.record_demand("late", WANTED, 10)
    assert ahead.close() == [AcquiredRange(0, 9, 1), AcquiredRange(10, 19, 1), AcquiredRange(20, 29, 1)]
    assert not arrive(ahead, "late", 100, 10, 1_600)
    assert ahead.buffered == 0


def test_gaps_leave_the_buffer_and_the_fetch_still_waits(ahead: ReadAhead) -> None:
    ahead.begin_wait(0)
    ahead.record_demand("d", WANTED, 0)
    arrive(ahead, "d", 0, WANTED, 5)
    assert ahead.remove([], [OffsetRange(0, 99)], 5) is None
    assert (ahead.buffered, ahead.is_waiting) == (400, True)
    assert take(ahead, 400, 6) == 5 + LOCK_MS
    assert not ahead.is_waiting


# -- clients and a job with a round trip of half a second -------------------------------------------------------------


@dataclass
class Run:
    """One member and a job that always has as much as is asked for, step by step in milliseconds.

    The client fetches at most `wanted`, and comes back after what it got is worked off at its rate (records a ms):
    `worked_ms` are those times.
    """

    rate: float
    wanted: int = WANTED
    ahead: ReadAhead = field(default_factory=lambda: ReadAhead(10_000_000, LOCK_MS, LOST_MS))
    delivered: int = 0
    dry_ms: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    lingered_ms: list[int] = field(default_factory=list)
    worked_ms: list[float] = field(default_factory=list)
    most_buffered: int = 0
    given_back: int = 0

    def run(self, until_ms: int) -> Run:
        answers: deque[tuple[int, str, int]] = deque()
        next_offset, back_at = 0, 0.0
        for now_ms in range(until_ms):
            while answers and answers[0][0] <= now_ms:
                _, demand_id, records = answers.popleft()
                arrive(self.ahead, demand_id, next_offset, records, now_ms)
                next_offset += records
            self.most_buffered = max(self.most_buffered, self.ahead.buffered)
            self.given_back += sum(last - first + 1 for first, last, _ in self.ahead.remove_expiring(now_ms, 5_000))
            while back_at <= now_ms and self.ahead.buffered:
                first, last, _ = self.ahead.ranges(1)[0]
                records = min(self.ahead.credit.max_records_now(self.wanted, now_ms), last - first + 1)
                take(self.ahead, records, now_ms)
                self.delivered += records
                self.worked_ms.append(records / self.rate)
                back_at = max(back_at, now_ms - 1) + records / self.rate
            if back_at <= now_ms:
                self.ahead.begin_wait(now_ms)
                self.dry_ms.append(now_ms)
            records_wanted = self.ahead.records_to_request(now_ms, self.wanted)
            if records_wanted is not None:
                self.asked.append(records_wanted)
                lingers_ms = self.ahead.linger_ms(now_ms)
                self.lingered_ms.append(lingers_ms)
                self.ahead.record_demand(str(len(self.asked)), records_wanted, now_ms, lingers_ms)
                answers.append((now_ms + lingers_ms + TRIP_MS, str(len(self.asked)), records_wanted))
        return self


def test_a_fast_client_waits_for_a_few_round_trips_and_then_never() -> None:
    run = Run(rate=300).run(20_000)
    assert len(run.dry_ms) <= 5 * TRIP_MS
    assert run.dry_ms[-1] < 3_000
    assert run.delivered > 0.8 * 300 * 20_000
    assert run.given_back == 0
    assert run.most_buffered <= 300 * 2 * 8 * TRIP_MS


def test_demands_of_a_fast_client_linger_and_it_never_waits_for_it() -> None:
    run = Run(rate=300, ahead=ReadAhead(10_000_000, LOCK_MS, LOST_MS, linger_ms=LINGER_MS)).run(30_000)
    assert set(run.lingered_ms[-10:]) == {LINGER_MS}
    assert run.dry_ms[-1] < 4_000
    assert run.delivered > 0.8 * 300 * 30_000
    assert run.most_buffered <= 300 * 2 * (2 * LINGER_MS + 10 * TRIP_MS)
    assert run.given_back == 0


def test_demand_of_a_waiting_fetch_does_not_linger() -> None:
    ahead = reading_ahead(linger_ms=LINGER_MS)
    ahead.begin_wait(1_000)
    assert ahead.linger_ms(1_000) == 0


def test_demand_lingers_while_the_buffer_outlasts_the_response() -> None:
    credit = Credit(1_000_000, LOCK_MS, linger_ms=300)
    credit.record_response(FetchDemand("d0", 0, WANTED, is_ahead=False), WANTED, 100)
    assert credit.linger_ms(WANTED, 100) == 0  # the member's rate is unknown
    credit.record_delivery(WANTED, 100)
    credit.record_empty_buffer(200, is_asked_ahead=False)  # 5 a ms
    assert [credit.linger_ms(buffered, 200) for buffered in (0, 1_500, 2_000, 2_500, 5_000)] == [0, 0, 100, 200, 300]


@pytest.mark.parametrize(
    ("took_ms", "expected_ms"),
    [(40, 70), (100, 100), (300, 100), (400, 100), (500, 150)],
)
def test_round_trip_excludes_lingering(took_ms: int, expected_ms: int) -> None:
    credit = Credit(1_000_000, LOCK_MS, linger_ms=300)
    credit.record_response(FetchDemand("d0", 0, WANTED, is_ahead=False), WANTED, 100)
    credit.record_response(FetchDemand("d1", 100, WANTED, is_ahead=True, linger_ms=300), WANTED, 100 + took_ms)
    credit.record_delivery(1_000, 700)
    credit.record_empty_buffer(1_700, is_asked_ahead=False)  # 1 a ms
    assert credit.linger_ms(500, 1_700) == 500 - 3 * expected_ms


@pytest.mark.parametrize("wanted", [10, WANTED])
def test_a_slow_client_never_holds_more_than_its_first_demand(wanted: int) -> None:
    run = Run(rate=0.01, wanted=wanted).run(200_000)  # ten records a second
    assert run.asked[0] == min(wanted, FIRST)
    assert run.most_buffered <= min(wanted, FIRST)
    assert run.delivered >= 0.95 * 0.01 * 200_000
    assert run.given_back == 0


@pytest.mark.parametrize(
    "rate",  # 200, 100 and 33 ms a record
    [*thorough(0.005, 0.01), 0.03],
)
def test_slow_client_is_sent_what_it_finishes_within_its_locks(rate: float) -> None:
    run = Run(rate=rate).run(300_000)
    assert run.worked_ms[0] == FIRST / rate < LOCK_MS
    assert max(run.worked_ms[1:]) <= 0.4 * LOCK_MS
    assert run.delivered >= 0.95 * rate * 300_000


def test_pause_after_all_acknowledgements_does_not_lower_the_rate() -> None:
    credit = Credit(10_000, LOCK_MS)
    credit.record_delivery(FIRST, 0)
    credit.record_all_acknowledged(250)  # 2 ms a record
    assert credit.max_records_now(WANTED, 60_000) == WANTED
    credit.record_delivery(FIRST, 60_000)
    assert credit.max_records_now(WANTED, 120_000) <= 50  # 125 in that minute are 25 in two fifths


def test_client_with_one_fetch_a_second_waits_only_at_first() -> None:
    run = Run(rate=0.5).run(60_000)
    assert run.dry_ms[-1] < 5_000
    assert run.most_buffered <= 2 * WANTED


def test_stopped_client_loses_its_read_ahead_and_its_rate() -> None:
    run = Run(rate=300).run(10_000)
    fast = run.ahead.credit.target
    held = run.ahead.buffered
    back = run.ahead.remove_all()
    assert sum(last - first + 1 for first, last, _ in back) == held
    assert fast > 100_000
    assert run.ahead.credit.target == WANTED


def first_response(wanted: int) -> tuple[ReadAhead, int]:
    """Return a read-ahead after the first demand, for which a fetch of `wanted` records waited; and its records."""
    ahead = ReadAhead(2_000, 30_000, 60_000)
    ahead.begin_wait(0)
    records = ahead.records_to_request(0, wanted)
    assert records is not None
    ahead.record_demand("d1", records, 0)
    assert ahead.add_response("d1", [AcquiredRange(0, records - 1, 1)], 30_000, 1)
    return ahead, records


def test_rest_of_a_batch_is_not_awaited_after_an_assignment() -> None:
    """The rest may be assigned to another member."""
    ahead, records = first_response(5)
    part = ahead.ranges()
    assert ahead.records_to_complete_batch(part, 1, 1) is not None
    ahead.remove(part, (), 1)
    ahead.add_assigned([AcquiredRange(records, records + 4, 1)], 30_000)
    assert ahead.records_to_complete_batch(ahead.ranges(), 1, 2) is None


def test_rest_of_a_batch_is_not_awaited_after_read_ahead() -> None:
    """Otherwise a member that processes its records would pause for a micro-batch at the end of each response."""
    ahead, records = first_response(100)
    ahead.remove(ahead.ranges(), (), 1)
    more = ahead.records_to_request(50, 100)
    assert more is None, "the member has no rate until its next fetch"
    ahead.credit.max_records_now(100, 100)
    more = ahead.records_to_request(100)
    assert more is not None
    ahead.record_demand("d2", more, 100)
    assert ahead.add_response("d2", [AcquiredRange(records, records + more - 1, 1)], 30_000, 200)
    assert ahead.records_to_complete_batch(ahead.ranges(), 1, 200) is None
