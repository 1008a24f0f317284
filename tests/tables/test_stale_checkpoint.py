"""Which checkpoints a query continues from, and which are rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharegroup.config import parse_config
from sharegroup.job.lead.stale_checkpoint import (
    OPERATOR_SHARDS,
    SHUFFLE_PARTITIONS,
    Checkpoint,
    StaleCheckpointError,
    reject_stale_checkpoint,
)

MINE, OTHER = "query-mine", "query-other"
#: The epoch in which another query wrote last.
WRITTEN = 5


def checkpoint(newest_batch: int) -> Checkpoint:
    return Checkpoint("/checkpoints/share_partition", MINE, newest_batch)


def started(leader_epoch: int) -> Callable[[str], int]:
    """Return a function with the epoch of the last start of the checkpoint's query."""
    return lambda query_id: leader_epoch if query_id == MINE else pytest.fail(query_id)


def info(query_id: str) -> dict[str, object]:
    return {"query_id": query_id, "leader_epoch": WRITTEN, "batch_id": 7}


def test_without_a_checkpoint_nothing_is_rejected() -> None:
    reject_stale_checkpoint(None, info(OTHER), -1, pytest.fail)


@pytest.mark.parametrize("newest_batch", [7, 8, 90])
def test_a_checkpoint_with_all_batches_of_its_query_is_used(newest_batch: int) -> None:
    """It may have more, because a batch without effects commits nothing."""
    reject_stale_checkpoint(checkpoint(newest_batch), info(MINE), 7, started(1))


@pytest.mark.parametrize("newest_batch", [6, 0, -1])
@pytest.mark.parametrize("last_writer", [MINE, OTHER])
def test_an_older_checkpoint_of_the_same_query_is_rejected(newest_batch: int, last_writer: str) -> None:
    with pytest.raises(
        StaleCheckpointError,
        match=f"the tables have batch 7 of query {MINE}, but its checkpoint /checkpoints/share_partition ends at batch "
        f"{newest_batch}: remove that checkpoint",
    ):
        reject_stale_checkpoint(checkpoint(newest_batch), info(last_writer), 7, started(WRITTEN + 1))


def test_a_query_started_after_the_last_write_continues() -> None:
    """A start reads the tables, so its checkpoint contains what was written before."""
    reject_stale_checkpoint(checkpoint(3), info(OTHER), -1, started(WRITTEN + 1))


@pytest.mark.parametrize("last_start", [0, WRITTEN - 1, WRITTEN])
def test_a_checkpoint_is_stale_if_another_query_wrote_after_its_last_start(last_start: int) -> None:
    with pytest.raises(
        StaleCheckpointError,
        match=f"the tables were last written by query {OTHER}, but the checkpoint "
        f"/checkpoints/share_partition belongs to query {MINE}: remove that checkpoint",
    ):
        reject_stale_checkpoint(checkpoint(3), info(OTHER), -1, started(last_start))


def test_tables_without_a_batch_leave_no_checkpoint_behind() -> None:
    reject_stale_checkpoint(checkpoint(3), None, -1, started(0))


def test_a_checkpoint_without_a_batch_holds_nothing_that_could_be_stale() -> None:
    """Its query died before its first batch."""
    reject_stale_checkpoint(checkpoint(-1), info(OTHER), -1, started(0))


@pytest.mark.parametrize(
    ("pinned", "config", "changed"),
    [
        ({}, {"shuffle.partitions": 16, "operator.shards": 2}, []),
        ({SHUFFLE_PARTITIONS: 8, OPERATOR_SHARDS: 1}, {}, []),
        ({SHUFFLE_PARTITIONS: 8}, {"shuffle.partitions": 8, "operator.shards": 2}, []),
        ({OPERATOR_SHARDS: 2}, {}, ["operator.shards (2 in the checkpoint, 1 in the configuration)"]),
        (
            {SHUFFLE_PARTITIONS: 8, OPERATOR_SHARDS: 1},
            {"shuffle.partitions": 16, "operator.shards": 3},
            [
                "operator.shards (1 in the checkpoint, 3 in the configuration)",
                "shuffle.partitions (8 in the checkpoint, 16 in the configuration)",
            ],
        ),
    ],
)
def test_a_checkpoint_pins_shards_and_shuffle_partitions(
    pinned: dict[str, int], config: dict[str, int], changed: list[str]
) -> None:
    job = parse_config({"job": config}, "test").job
    assert Checkpoint("/c", MINE, 3, pinned=pinned).changed_settings(job) == changed
