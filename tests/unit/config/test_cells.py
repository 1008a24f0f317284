"""The cell of a group, and the configuration of a cell's job."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sharegroup.config import Config, parse_config
from sharegroup.errors import InvalidConfigError

GROUPS = [f"group-{number}" for number in range(3_000)]


def cells(names: object, groups: dict[str, str] | None = None, **job: Any) -> Config:
    section = {"cell.names": names, **({"group.cells": groups} if groups else {})}
    return parse_config({"cells": section, "job": job}, "test")


def test_without_cells_there_is_one_job() -> None:
    config = Config()
    assert config.cells.cell_of("any") == ""
    assert config.for_cell("") == config
    assert config.has_group("any")
    assert config.job_for("any") == config.job


def test_a_group_has_its_configured_cell_or_one_by_its_id() -> None:
    config = cells("a, b,c", {"billing": "b"})
    assert config.cells.cell_of("billing") == "b"
    # The highest SHA-256 of "cell\ngroup" of all cells, which every process computes alike.
    assert [config.cells.cell_of(group) for group in ("orders", "audit", "mail", "")] == ["c", "c", "b", "c"]


def test_a_new_cell_receives_groups_from_all_others_and_moves_no_other() -> None:
    before, after = cells("a,b,c").cells, cells(["c", "d", "b", "a"]).cells
    counts = Counter(map(before.cell_of, GROUPS))
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 900
    moved = [(before.cell_of(group), after.cell_of(group)) for group in GROUPS]
    assert {new for old, new in moved if old != new} == {"d"}
    assert {old for old, new in moved if old != new} == {"a", "b", "c"}


def test_a_cell_has_its_own_folders_and_topics() -> None:
    job = {
        "tables.path": "s3://bucket/tables/",
        "checkpoint.path": "data/checkpoint",
        "share.group.requests.topic": "r",
    }
    config = cells("a,b", {"billing": "b"}, **job)
    of_b = config.for_cell("b")
    assert (of_b.cell, of_b.job.tables_path, of_b.job.checkpoint_path) == (
        "b", "s3://bucket/tables/b", "data/checkpoint/b",
    )  # fmt: skip
    assert of_b.job.topics == ("r-b", "__share_partition_requests-b", "__share_group_responses-b")
    assert (of_b.has_group("billing"), config.for_cell("a").has_group("billing")) == (True, False)
    assert of_b.job_for("billing") == config.job_for("billing") == of_b.job
    assert of_b.all_cells == config.job


@pytest.mark.parametrize("cell", ["", "c"])
def test_an_unknown_cell_is_rejected(cell: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"is not in cell\.names \(a, b\); set --cell to one of them"):
        cells("a,b").for_cell(cell)
    with pytest.raises(InvalidConfigError, match=r"\(none\)"):
        Config().for_cell("a")


@pytest.mark.parametrize(
    ("names", "groups", "problem"),
    [
        ("a,B", {}, "Malformed cell names: B"),
        ("a,a", {}, "A cell name is listed twice"),
        (7, {}, "Not a list"),
        ("a", {"g": "b"}, "group.cells has the cell b, which is not in cell.names"),
        ("x" * 240, {}, "is not a valid topic name"),
    ],
)
def test_invalid_cells_are_rejected(names: object, groups: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        cells(names, groups)
    assert problem in str(caught.value)
