"""What is reserved for a gateway: which offsets it may assign, and when it asks for more."""

from __future__ import annotations

import itertools
from dataclasses import replace

from sharegroup.errors import ErrorCode
from sharegroup.gateway.reservations.partition_reservation import (
    FAILURE_PAUSE_MS,
    LOST_AFTER_MS,
    MIN_SLICE,
    PartitionReservation,
)
from sharegroup.protocol.rows.reservation_requests import MAX_RESERVED_RECORDS
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.types import AcquiredRange, OffsetRange

LOCK_MS, RETRY_MS = 30_000, 400


def response(*ranges: tuple[int, int], request_id: str = "r1", epoch: int = 1) -> ReserveResponse:
    acquired = tuple(AcquiredRange(first, last, 0) for first, last in ranges)
    return ReserveResponse(
        request_id, "gateway", "g", "orders", "id", 0, "", reservation_epoch=epoch, acquired=acquired,
        log_end_offset=7, record_lock_duration_ms=LOCK_MS, retry_ms=RETRY_MS,
    )  # fmt: skip


def reserved(*ranges: tuple[int, int]) -> PartitionReservation:
    """Return a reservation whose first request was answered with these ranges."""
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    assert reservation.apply_response(response(*ranges), 0)
    return reservation


def test_nothing_is_requested_without_waiting_members() -> None:
    assert PartitionReservation(itertools.count(1)).records_to_reserve(0, 100, 0) is None


def test_slice_grows_with_members_and_arrivals_up_to_the_limit() -> None:
    reservation = PartitionReservation(itertools.count(1))
    assert reservation.records_to_reserve(1, 0, 0) == MIN_SLICE
    assert reservation.records_to_reserve(4, 0, 0) == 64
    assert reservation.records_to_reserve(4, 1_000, 0) == 3_000
    assert reservation.records_to_reserve(4, 10_000, 0) == MAX_RESERVED_RECORDS


def test_a_slice_lasts_longer_if_the_job_responds_slowly() -> None:
    reservation = PartitionReservation(itertools.count(1))
    for number, (response_ms, records) in enumerate(((500, 300), (2_000, 800), (9_000, 3_600)), start=1):
        reservation.record_request(f"r{number}", 0)
        assert reservation.apply_response(response((7, 38), request_id=f"r{number}"), response_ms)
        reservation.use([OffsetRange(7, 38)])
        assert reservation.records_to_reserve(1, 100, response_ms) == records


def test_a_late_response_is_applied_although_another_request_was_sent() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    reservation.record_request("r2", LOST_AFTER_MS)
    assert reservation.apply_response(response((7, 38), request_id="r1"), LOST_AFTER_MS + 1)
    assert reservation.unused_count == 32
    assert reservation.records_to_reserve(1, 100, LOST_AFTER_MS + 1) is None  # the second one is open
    assert reservation.apply_response(response((7, 70), request_id="r2"), LOST_AFTER_MS + 2)
    assert not reservation.apply_response(response((7, 38), request_id="r1"), LOST_AFTER_MS + 3)
    assert reservation.unused_count == 64


def test_an_earlier_response_is_not_applied_after_a_later_one() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    reservation.record_request("r2", LOST_AFTER_MS)
    assert reservation.apply_response(response((7, 70), request_id="r2"), LOST_AFTER_MS + 1)
    assert not reservation.apply_response(response((7, 38), request_id="r1"), LOST_AFTER_MS + 2)


def test_one_request_is_open_at_a_time_until_it_counts_as_lost() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    assert reservation.records_to_reserve(1, 0, LOST_AFTER_MS - 1) is None
    assert reservation.records_to_reserve(1, 0, LOST_AFTER_MS) == MIN_SLICE
    reservation.record_request("r2", LOST_AFTER_MS)
    reservation.expect_no_response()
    assert reservation.records_to_reserve(1, 0, LOST_AFTER_MS) == MIN_SLICE


def test_a_request_before_a_restart_of_the_job_may_hold_offsets() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    reservation.expect_no_response()
    assert reservation.may_hold
    assert reservation.apply_response(response((7, 38), request_id="r1"), 300_000)
    assert reservation.unused_count == 32
    reservation.use([OffsetRange(7, 38)])
    assert reservation.records_to_reserve(1, 100, 300_000) == 300, "the outage does not count as a response time"


def test_a_request_whose_append_failed_may_hold_offsets_until_the_next_response() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    reservation.record_failure("r1", 0)
    assert reservation.may_hold
    reservation.record_request("r2", FAILURE_PAUSE_MS)
    assert reservation.apply_response(response(request_id="r2"), FAILURE_PAUSE_MS)
    assert not reservation.may_hold


def test_a_rejected_request_holds_no_offsets() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    rejected = replace(response(), error_code=int(ErrorCode.INVALID_REQUEST))
    assert not reservation.apply_response(rejected, 0)
    assert not reservation.may_hold
    assert reservation.records_to_reserve(1, 0, FAILURE_PAUSE_MS - 1) is None


def test_an_earlier_request_may_hold_offsets_although_a_later_one_was_rejected() -> None:
    reservation = PartitionReservation(itertools.count(1))
    reservation.record_request("r1", 0)
    reservation.expect_no_response()
    reservation.record_request("r2", 0)
    rejected = replace(response(request_id="r2"), error_code=int(ErrorCode.INVALID_REQUEST))
    assert not reservation.apply_response(rejected, 0)
    assert reservation.may_hold
    assert reservation.apply_response(response((7, 38), request_id="r1"), 0)
    assert reservation.unused_count == 32


def test_more_is_requested_when_half_is_used() -> None:
    reservation = reserved((7, 38))
    assert reservation.records_to_reserve(1, 0, 3_600_000) is None
    reservation.use([OffsetRange(7, 21)])
    assert reservation.records_to_reserve(1, 0, 1) is None
    reservation.use([OffsetRange(22, 22)])
    assert reservation.records_to_reserve(1, 0, 1) == MIN_SLICE


def test_a_slice_smaller_than_requested_is_half_used_as_well() -> None:
    reservation = reserved((7, 10))
    assert reservation.records_to_reserve(1, 0, 1) is None
    reservation.use([OffsetRange(7, 8)])
    assert reservation.records_to_reserve(1, 0, 1) == MIN_SLICE


def test_empty_response_and_failures_delay_the_next_request() -> None:
    reservation = reserved()
    assert reservation.records_to_reserve(1, 0, RETRY_MS - 1) is None
    assert reservation.records_to_reserve(1, 0, RETRY_MS) == MIN_SLICE
    reservation.record_request("r2", RETRY_MS)
    reservation.record_failure("r1", RETRY_MS)  # of an earlier one
    assert reservation.records_to_reserve(1, 0, RETRY_MS) is None
    reservation.record_failure("r2", RETRY_MS)
    assert reservation.records_to_reserve(1, 0, RETRY_MS + FAILURE_PAUSE_MS - 1) is None
    assert reservation.records_to_reserve(1, 0, RETRY_MS + FAILURE_PAUSE_MS) == MIN_SLICE


def test_offsets_are_assignable_when_the_log_has_reached_them() -> None:
    reservation = reserved((7, 9), (12, 15))
    assert reservation.assignable_ranges(7) == []
    assert reservation.assignable_ranges(13) == [(7, 9), (12, 12)]


def test_each_offset_is_used_once_though_responses_repeat_it() -> None:
    reservation = reserved((7, 10))
    reservation.use([OffsetRange(7, 8)])
    assert reservation.assignable_ranges(100) == [(9, 10)]
    reservation.record_request("r2", 1)
    assert reservation.apply_response(response((8, 14), request_id="r2"), 1)
    assert reservation.assignable_ranges(100) == [(9, 14)]
    assert not reservation.apply_response(response((7, 14), request_id="r2"), 1)  # sent twice
    assert reservation.unused_count == 6


def test_new_epoch_discards_the_reservation_and_late_responses() -> None:
    reservation = reserved((7, 10))
    reservation.record_request("r2", 1)
    reservation.begin_epoch()
    assert (reservation.epoch, reservation.unused_count) == (2, 0)
    assert not reservation.apply_response(response((7, 14), request_id="r2"), 1)
    reservation.record_request("r3", 1)
    assert not reservation.apply_response(response((7, 14), request_id="r3", epoch=1), 1)
    assert reservation.assignable_ranges(100) == []
