"""The next batch from the queue, and the Kafka reads for it."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.member.batch_plan import MAX_GAP_FACTOR, MAX_READS, plan_batch, plan_reads
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.types import OffsetRange

P0 = AssignedPartition("t", "id-t", 0)


def held(first: int, last: int, partition: int = 0, topic: str = "t", count: int = 1) -> HeldRange:
    return HeldRange(topic, f"id-{topic}", partition, first, last, count, 30_000)


def offsets(ranges: tuple[HeldRange, ...]) -> Counter[tuple[str, int, int]]:
    return Counter((r.topic, r.partition, o) for r in ranges for o in range(r.first_offset, r.last_offset + 1))


def test_oldest_first_and_the_last_range_is_split() -> None:
    queued = (held(100, 199, 1), held(0, 99), held(200, 299, 1))
    plan = plan_batch(queued, 150)
    assert plan.batch == (held(100, 199, 1), held(0, 49))
    assert plan.rest == (held(50, 99), held(200, 299, 1))


def test_one_read_for_all_partitions_when_ranges_are_dense() -> None:
    ranges = [held(0, 9), held(12, 19), held(5, 6, 1)]
    assert plan_reads(ranges) == [{P0: OffsetRange(0, 19), P0._replace(partition=1): OffsetRange(5, 6)}]


def test_a_gap_up_to_twice_the_needed_records_is_read() -> None:
    assert len(plan_reads([held(0, 0), held(5, 5)])) == 1
    assert len(plan_reads([held(0, 0), held(6, 6)])) == 2


def test_distant_ranges_wait_and_the_oldest_is_first() -> None:
    far = tuple(held(1000 * n, 1000 * n) for n in (9, 1, 7, 3, 5, 2))
    plan = plan_batch(far, 100)
    assert plan.batch == far[:MAX_READS]
    assert plan.rest == far[MAX_READS:]
    assert len(plan_reads(plan.batch)) == MAX_READS


def test_a_batch_is_read_with_one_isolation_level() -> None:
    committed = held(20, 29)._replace(read_committed=True)
    plan = plan_batch((held(0, 9), committed, held(10, 19)), 100)
    assert plan.batch == (held(0, 9), held(10, 19))
    assert plan.rest == (committed,)
    assert plan_batch(plan.rest, 100).batch == (committed,)


def test_a_record_at_its_last_attempt_is_a_batch_of_its_own() -> None:
    queued = (held(0, 9, count=4), held(10, 11, count=5), held(0, 9, 1))
    batches = []
    while queued:
        plan = plan_batch(queued, 100, delivery_count_limit=5)
        batches.append(plan.batch)
        queued = plan.rest
    assert batches == [(held(0, 9, count=4),), (held(10, 10, count=5),), (held(11, 11, count=5),), (held(0, 9, 1),)]


def test_last_attempts_share_a_batch_with_limit_two_or_unknown() -> None:
    queued = (held(0, 9, count=2), held(10, 19, count=1))
    assert plan_batch(queued, 100, delivery_count_limit=2).batch == queued
    assert plan_batch(queued, 100).batch == queued


def test_topics_of_one_name_are_not_in_one_batch() -> None:
    again = held(0, 9)._replace(topic_id="another")
    plan = plan_batch((held(0, 9), again, held(5, 5, topic="u")), 100)
    assert plan.batch == (held(0, 9), held(5, 5, topic="u"))
    assert plan.rest == (again,)


@st.composite
def queues(draw: st.DrawFn) -> tuple[HeldRange, ...]:
    """Return disjoint ranges of three partitions, in any order."""
    found: list[HeldRange] = []
    for partition in range(3):
        next_offset = 0
        for gap, size in draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12)):
            first = next_offset + gap
            found.append(held(first, first + size - 1, partition, count=draw(st.integers(1, 3))))
            next_offset = first + size
    return tuple(draw(st.permutations(found)))


@settings(deadline=None)
@given(queues(), st.integers(1, 200))
def test_nothing_is_lost_and_every_bound_holds(queued: tuple[HeldRange, ...], max_records: int) -> None:
    plan = plan_batch(queued, max_records)
    assert offsets((*plan.batch, *plan.rest)) == offsets(queued)
    assert sum(r.size for r in plan.batch) <= max_records
    assert bool(plan.batch) == bool(queued)
    reads = plan_reads(plan.batch)
    assert len(reads) <= MAX_READS
    covered: Counter[tuple[str, int, int]] = Counter()
    for read in reads:
        for (topic, _, partition), (first, last) in read.items():
            wanted = sum(r.size for r in plan.batch if r.partition == partition and first <= r.first_offset <= last)
            assert last - first + 1 <= (1 + MAX_GAP_FACTOR) * wanted
            covered.update((topic, partition, offset) for offset in range(first, last + 1))
    assert all(times == 1 for times in covered.values())
    assert set(offsets(plan.batch)) <= set(covered)


@settings(deadline=None)
@given(queues(), st.integers(1, 50))
def test_repeated_planning_empties_the_queue(queued: tuple[HeldRange, ...], max_records: int) -> None:
    rest, seen = queued, Counter[tuple[str, int, int]]()
    while rest:
        plan = plan_batch(rest, max_records)
        seen += offsets(plan.batch)
        rest = plan.rest
    assert seen == offsets(queued)
