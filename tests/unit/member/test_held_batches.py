"""The ranges of a member: queued, on offer, running, returned."""

import pytest

from sharegroup.member.held_batches import HeldBatches, RunningBatch
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch

LOCK_MS = 30_000
P1 = AssignedPartition("t", "id", 1)


class FakeOffers:
    """The offer file as a variable."""

    def __init__(self) -> None:
        self.offer: OfferedBatch | None = None
        self.is_closed = False

    def put(self, batch: OfferedBatch) -> None:
        assert self.offer is None
        self.offer = batch

    def is_claimed(self) -> bool:
        return self.offer is None

    def withdraw(self) -> bool:
        had, self.offer = self.offer is not None, None
        return had

    def close(self) -> None:
        self.is_closed = True

    def claim(self) -> OfferedBatch:
        assert self.offer is not None
        claimed, self.offer = self.offer, None
        return claimed


@pytest.fixture
def offers() -> FakeOffers:
    return FakeOffers()


@pytest.fixture
def holdings(offers: FakeOffers) -> HeldBatches:
    return HeldBatches(offers, "i", 100)


def held(first: int, last: int, now_ms: int = 0, partition: int = 0) -> HeldRange:
    return HeldRange("t", "id", partition, first, last, 1, now_ms + LOCK_MS)


def test_acquired_ranges_are_offered_up_to_max_records(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 149)], 0)
    assert holdings.step(0) == []
    assert offers.offer == OfferedBatch(1, "i", (held(0, 99),))
    assert holdings.waiting_records == 150


def test_the_next_batch_is_on_offer_as_soon_as_one_is_claimed(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 149)], 0)
    holdings.step(0)
    offers.claim()
    holdings.step(10)
    assert holdings.running is not None
    assert (holdings.running.seq, holdings.running.ranges) == (1, (held(0, 99),))
    assert holdings.running.renew_at_ms == 10 + (LOCK_MS - 10) // 2
    assert offers.offer == OfferedBatch(2, "i", (held(100, 149),))
    assert holdings.waiting_records == 50
    holdings.finish(1)
    assert holdings.running is None


def test_a_renewal_in_time_can_have_a_late_response() -> None:
    batch = RunningBatch(1, (held(0, 9), held(10, 19)), 0)
    assert (batch.is_held(LOCK_MS - 1), batch.is_held(LOCK_MS)) == (True, False)
    batch.mark_renewal_appended(LOCK_MS)
    assert not batch.is_held(LOCK_MS)
    batch.mark_renewal_appended(LOCK_MS - 1)
    assert batch.is_held(2 * LOCK_MS)
    renewed = held(0, 9, now_ms=LOCK_MS)
    assert batch.apply_renewal([renewed], is_refused=False, now_ms=LOCK_MS) == 10
    assert not batch.is_held(LOCK_MS)  # the others are finished, and not because of the log's start
    assert (batch.renewable, batch.lock_deadline_ms) == ({renewed}, 2 * LOCK_MS)


def test_an_unclaimed_small_offer_grows(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9)], 0)
    holdings.step(0)
    holdings.add([held(10, 19, partition=1)], 5)
    holdings.step(5)
    assert offers.offer == OfferedBatch(2, "i", (held(0, 9), held(10, 19, partition=1)))
    holdings.step(10)
    assert offers.offer.seq == 2  # nothing new, so it remains


def test_split_ranges_are_rejoined_when_an_offer_is_withdrawn(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 149)], 0)
    holdings.step(0)
    holdings.stop_offering(1)
    assert (offers.offer, offers.is_closed) == (None, True)
    assert holdings.remove_all(1) == [held(0, 149)]
    assert holdings.waiting_records == 0


def test_waiting_ranges_are_returned_at_half_of_their_lock(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 249)], 0)
    holdings.step(0)
    offers.claim()
    assert holdings.step(1) == []
    assert holdings.step(LOCK_MS // 2) == []
    assert holdings.step(LOCK_MS // 2 + 1) == [held(100, 249)]
    assert (offers.offer, holdings.waiting_records) == (None, 0)
    assert holdings.running is not None


def test_a_stalled_member_holds_nothing_until_its_batch_ends(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 249)], 0)
    holdings.step(0)
    seq = offers.claim().seq
    holdings.step(1)
    assert not holdings.is_stalled
    holdings.step(LOCK_MS // 2 + 1)
    assert holdings.is_stalled
    late = held(250, 299, now_ms=20_000)
    holdings.add([late], 20_000)
    assert (holdings.step(20_000), offers.offer) == ([late], None)
    holdings.finish(seq)
    assert not holdings.is_stalled
    holdings.add([late], 21_000)
    assert holdings.step(21_000) == []
    assert offers.claim().ranges == (late,)


def test_ranges_with_expired_locks_are_not_returned(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9)], 0)
    assert holdings.step(LOCK_MS) == []
    assert (offers.offer, holdings.waiting_records) == (None, 0)


def test_an_offer_claimed_meanwhile_is_not_returned(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9)], 0)
    holdings.step(0)
    offers.claim()
    holdings.stop_offering(LOCK_MS)
    assert holdings.running is not None
    assert holdings.remove_all(1) == []


def test_no_batch_is_offered_after_the_stop(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.stop_offering(0)
    holdings.add([held(0, 9)], 0)
    holdings.step(0)
    assert offers.offer is None


def test_a_range_with_an_expired_lock_is_not_queued(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9)], LOCK_MS)
    holdings.step(LOCK_MS)
    assert (offers.offer, holdings.waiting_records) == (None, 0)


def test_a_fenced_member_holds_only_its_running_batch(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 149)], 0)
    holdings.step(0)
    offers.claim()
    holdings.step(1)
    holdings.discard_all(2)
    assert (offers.offer, holdings.waiting_records) == (None, 0)
    assert holdings.running is not None


def test_waiting_ranges_of_a_deleted_topic_are_discarded(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 49), held(0, 49, partition=1), held(50, 99, partition=1)], 0)
    holdings.step(0)
    assert offers.offer is not None
    holdings.discard_deleted(P1.__eq__, 1)
    assert holdings.waiting_records == 50
    holdings.step(1)
    assert offers.offer == OfferedBatch(2, "i", (held(0, 49),))
    holdings.discard_deleted(P1.__eq__, 2)
    assert offers.offer.seq == 2  # it had no such range, so it remains
    holdings.step(LOCK_MS)
    assert holdings.waiting_records == 0


def test_a_running_batch_that_has_lost_a_topic_is_not_held(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9), held(0, 9, partition=1)], 0)
    holdings.step(0)
    offers.claim()
    holdings.step(1)
    assert holdings.running is not None
    assert holdings.running.is_held(1)
    holdings.discard_deleted(P1.__eq__, 1)
    assert not holdings.running.is_held(1)
    assert holdings.running.renewable == {held(0, 9)}


def test_ranges_deleted_before_the_begin_are_left_out(holdings: HeldBatches, offers: FakeOffers) -> None:
    holdings.add([held(0, 9), held(0, 9, partition=1)], 0)
    holdings.step(0)
    offers.claim()
    holdings.check_claim(1)
    holdings.discard_deleted(P1.__eq__, 1)
    assert holdings.running is not None
    assert holdings.running.discard_deleted() == (held(0, 9),)
    assert holdings.running.is_held(1)


@pytest.mark.parametrize("ahead_ms", [-86_400_000, 86_400_000])
def test_locks_end_by_the_brokers_clock(offers: FakeOffers, holdings: HeldBatches, ahead_ms: int) -> None:
    holdings.ahead_ms = ahead_ms
    holdings.add([held(0, 149, now_ms=ahead_ms)], 0)
    assert holdings.step(0) == []
    offers.claim()
    holdings.step(10)
    assert holdings.running is not None
    assert holdings.running.began_ms == 10
    assert holdings.running.renew_at_ms == ahead_ms + 10 + (LOCK_MS - 10) // 2
    assert holdings.running.is_held(holdings.brokers_ms(LOCK_MS - 1))
    assert not holdings.running.is_held(holdings.brokers_ms(LOCK_MS))
    assert holdings.step(LOCK_MS // 2) == []
    given_back = holdings.step(LOCK_MS // 2 + 1)
    assert given_back == [held(100, 149, now_ms=ahead_ms)]


def test_a_corrected_broker_clock_applies_immediately(offers: FakeOffers, holdings: HeldBatches) -> None:
    holdings.add([held(0, 99)], 0)
    holdings.step(0)
    holdings.ahead_ms = LOCK_MS
    holdings.step(0)
    assert offers.offer is None
    assert holdings.waiting_records == 0
