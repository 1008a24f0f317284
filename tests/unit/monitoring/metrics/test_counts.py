"""Counts of deliveries, groups and labels from rows."""

from __future__ import annotations

from typing import Any

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.group_labels import OTHER, GroupLabels
from sharegroup.monitoring.metrics.job_counts import FinishedBatch, JobCounts, RowChange
from sharegroup.monitoring.metrics.metric import Labels, Metric, Observations
from sharegroup.monitoring.metrics.window_sizes import WindowSizes

QUERY = "share_partition"


def transition(first: int, last: int, to_state: str, cause: str, count: int = 1, group: str = "g") -> dict[str, Any]:
    return {
        "group_id": group, "first_offset": first, "last_offset": last, "to_state": to_state, "cause": cause,
        "delivery_count": count,
    }  # fmt: skip


def of_log(*rows: dict[str, Any]) -> FinishedBatch:
    return FinishedBatch(QUERY, 0, tables={"delivery_log": rows})


def shown(counts: JobCounts, metric: Metric) -> dict[Labels, float | Observations]:
    (family,) = (family for family in counts.families(0) if family.metric is metric)
    return dict(family.series)


def test_each_acknowledgement_counts_for_its_records() -> None:
    counts = JobCounts(10, 0)
    counts.count_batch(
        of_log(
            transition(0, 9, "ACQUIRED", "fetch"),
            transition(0, 3, "ACKNOWLEDGED", "accept"),
            transition(4, 4, "AVAILABLE", "release"),
            transition(5, 6, "ARCHIVED", "reject"),
            transition(7, 7, "ACQUIRED", "renew"),
            transition(8, 8, "ARCHIVED", "gap"),
        )
    )
    assert shown(counts, catalogue.RECORDS_ACQUIRED) == {("g",): 10}
    assert shown(counts, catalogue.ACKNOWLEDGEMENTS) == {
        ("g", "accept"): 4, ("g", "release"): 1, ("g", "reject"): 2, ("g", "renew"): 1, ("g", "gap"): 1,
    }  # fmt: skip
    assert shown(counts, catalogue.ARCHIVED) == {("g", "reject"): 2, ("g", "gap"): 1}


def test_a_record_at_the_delivery_limit_is_archived_with_that_reason() -> None:
    counts = JobCounts(10, 0)
    counts.count_batch(
        of_log(
            transition(0, 0, "ARCHIVED", "release", 5),
            transition(1, 2, "ARCHIVED", "lock_timeout", 5),
            transition(3, 3, "AVAILABLE", "lock_timeout", 4),
            transition(4, 4, "ARCHIVED", "member_left", 5),
            transition(5, 5, "ARCHIVED", "topic_deleted"),
        )
    )
    assert shown(counts, catalogue.ARCHIVED) == {("g", "delivery_limit"): 4, ("g", "topic_deleted"): 1}
    assert shown(counts, catalogue.LOCK_TIMEOUTS) == {("g",): 3}
    assert shown(counts, catalogue.GIVEN_BACK) == {("g", "member_left"): 1}


def test_delivery_counts_are_observed_when_records_are_acquired() -> None:
    counts = JobCounts(10, 0)
    counts.count_batch(of_log(transition(0, 7, "ACQUIRED", "fetch"), transition(8, 9, "ACQUIRED", "fetch", 30)))
    assert shown(counts, catalogue.DELIVERY_COUNT) == {("g",): Observations((8, 8, 8, 8, 8, 8, 8, 10), 68)}


def changed(*changes: RowChange) -> FinishedBatch:
    return FinishedBatch("group_coordinator", 0, changes=changes)


def group(group_id: str, state: str, epoch: int) -> dict[str, Any]:
    return {"group_id": group_id, "group_state": state, "group_epoch": epoch}


def member(group_id: str, member_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "member_id": member_id}


def test_row_changes_update_groups_and_members() -> None:
    counts = JobCounts(10, 0)
    counts.load_tables([("share_groups", None, group("a", "Empty", 3))])
    counts.count_batch(
        changed(
            ("share_groups", group("a", "Empty", 3), group("a", "Stable", 4)),
            ("share_group_members", None, member("a", "m1")),
            ("share_group_members", member("a", "m1"), member("a", "m1")),
            ("share_group_members", None, member("a", "m2")),
            ("share_group_members", member("a", "m1"), None),
        )
    )
    assert shown(counts, catalogue.GROUPS) == {("Empty",): 0, ("Stable",): 1, ("Dead",): 0}
    assert shown(counts, catalogue.MEMBERS) == {("a",): 1}
    assert shown(counts, catalogue.REBALANCES) == {("a",): 1}


def test_a_new_group_has_series_of_value_0() -> None:
    """An alert on an increase requires them, because a series that begins at 1 has not increased."""
    counts = JobCounts(10, 0)
    counts.count_batch(changed(("share_groups", None, group("a", "Empty", 1))))
    assert shown(counts, catalogue.MEMBERS) == {("a",): 0}
    assert shown(counts, catalogue.REBALANCES) == {("a",): 0}
    assert shown(counts, catalogue.LOCK_TIMEOUTS) == {("a",): 0}
    assert shown(counts, catalogue.ARCHIVED) == {("a", "reject"): 0, ("a", "delivery_limit"): 0}


def test_each_epoch_is_a_rebalance() -> None:
    """A micro-batch may raise a group's epoch several times, and creates a group with epoch 2 (KAFKA-20268)."""
    counts = JobCounts(10, 0)
    counts.load_tables([("share_groups", None, group("a", "Stable", 7))])
    counts.count_batch(changed(("share_groups", group("a", "Stable", 7), group("a", "Stable", 10))))
    counts.count_batch(changed(("share_groups", None, group("b", "Stable", 3))))
    assert shown(counts, catalogue.REBALANCES) == {("a",): 3, ("b",): 2}


def test_a_group_that_is_created_again_has_one_rebalance() -> None:
    counts = JobCounts(10, 0)
    counts.load_tables([("share_groups", None, group("a", "Dead", 7))])
    counts.count_batch(changed(("share_groups", group("a", "Dead", 7), group("a", "Stable", 2))))
    assert shown(counts, catalogue.REBALANCES) == {("a",): 1}


def of_windows(*windows: WindowSizes) -> FinishedBatch:
    return FinishedBatch(QUERY, 0, {"operator": 0.25, "commit": 0.25}, windows=windows)


def test_each_load_of_share_partitions_is_timed() -> None:
    """The start of a query, and each later micro-batch that loads share-partitions."""
    counts = JobCounts(10, 0)
    first, second = WindowSizes("g", "t", "id", 0), WindowSizes("g", "t", "id", 1)
    counts.count_batch(of_windows(first), load_s=20.0)
    counts.count_batch(of_windows(first))
    counts.count_batch(of_windows(first, second))
    counts.count_batch(of_windows(first._replace(is_managed=False)))
    counts.count_batch(of_windows(first), load_s=40.0)
    loads = shown(counts, catalogue.LOAD_SECONDS)[QUERY,]
    assert isinstance(loads, Observations)
    assert (loads.cumulative[-1], loads.sum) == (3, 60.5)


def test_a_query_that_becomes_leader_again_replaces_its_counts() -> None:
    counts = JobCounts(10, 0)
    for _ in range(2):
        counts.load_tables(
            [
                ("share_groups", None, group("a", "Stable", 3)),
                ("share_group_members", None, member("a", "m1")),
                ("share_partitions", None, {"status": "initialized"}),
            ]
        )
    assert shown(counts, catalogue.GROUPS)["Stable",] == 1
    assert shown(counts, catalogue.MEMBERS) == {("a",): 1}
    assert shown(counts, catalogue.SHARE_PARTITIONS)["initialized",] == 1


def test_a_deleted_group_frees_its_label_for_another() -> None:
    counts = JobCounts(1, 0)
    counts.load_tables([("share_groups", None, group("a", "Empty", 3))])
    counts.count_batch(of_log(transition(0, 0, "ACQUIRED", "fetch", group="a")))
    counts.count_batch(changed(("share_groups", group("a", "Empty", 3), None)))
    assert shown(counts, catalogue.RECORDS_ACQUIRED) == {}
    assert shown(counts, catalogue.DELIVERY_COUNT) == {}
    counts.count_batch(of_log(transition(0, 0, "ACQUIRED", "fetch", group="b")))
    assert shown(counts, catalogue.RECORDS_ACQUIRED) == {("b",): 1}


def test_a_group_above_the_limit_keeps_the_common_label() -> None:
    labels = GroupLabels(1)
    assert (labels.label_of("a"), labels.label_of("b")) == ("a", OTHER)
    assert labels.remove("a")
    assert (labels.label_of("b"), labels.label_of("c"), labels.label_of("d")) == (OTHER, "c", OTHER)
    assert not labels.remove("b")


def test_errors_are_counted_by_name() -> None:
    counts = JobCounts(10, 0)
    responses = [{"error_code": 0}, {"error_code": 121}, {"error_code": 121}, {"error_code": 9999}, {"type": "told"}]
    counts.count_batch(FinishedBatch(QUERY, 0, responses=responses))
    assert shown(counts, catalogue.REQUESTS_REJECTED) == {(QUERY, "INVALID_RECORD_STATE"): 2, (QUERY, "9999"): 1}


def test_the_commit_part_is_the_duration_of_a_state_write() -> None:
    counts = JobCounts(10, 0)
    counts.count_batch(
        FinishedBatch(QUERY, 0, {"operator": 0.25, "commit": 0.03, "answer": 0.01}, requests=7, rejected=1)
    )
    assert shown(counts, catalogue.PART_SECONDS)[QUERY, "operator"] == 0.25
    assert shown(counts, catalogue.REQUEST_ROWS) == {(QUERY,): 7}
    assert shown(counts, catalogue.REJECTED_ROWS) == {(QUERY,): 1}
    writes = shown(counts, catalogue.WRITE_SECONDS)[QUERY,]
    assert isinstance(writes, Observations)
    assert writes.cumulative[:3] == (0, 0, 1)
