"""The reader options and pieces for acquired ranges."""

from sharegroup.member.ranges import HeldRange
from sharegroup.spark.share_consumer.records import merged_pieces, with_isolation_level

HELD = HeldRange("t", "id", 0, 0, 9, 1, 30_000)


def test_isolation_level_is_that_of_the_acquired_ranges() -> None:
    told = {"kafka.isolation.level": "read_committed", "kafka.client.id": "c"}
    assert with_isolation_level(told, [HELD]) == {"kafka.isolation.level": "read_uncommitted", "kafka.client.id": "c"}
    assert with_isolation_level({}, [HELD._replace(read_committed=True)]) == {"kafka.isolation.level": "read_committed"}


def test_neighbours_with_one_delivery_count_are_one_piece() -> None:
    ranges = [HELD, HELD._replace(first_offset=10, last_offset=19), HELD._replace(first_offset=20, delivery_count=2)]
    assert merged_pieces(reversed(ranges[:2])) == [("t", 0, 0, 19, 1)]
    assert merged_pieces([ranges[2]._replace(last_offset=29), *ranges[:2]]) == [("t", 0, 0, 19, 1), ("t", 0, 20, 29, 2)]
