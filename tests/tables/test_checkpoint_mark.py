"""The mark in a checkpoint on a local disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.job.lead import checkpoint_mark
from sharegroup.job.lead.checkpoint_mark import MARK, CheckpointMark, MarkFile, boot_id
from sharegroup.job.lead.stale_checkpoint import (
    Checkpoint,
    StaleCheckpointError,
    reject_checkpoint_ahead,
    reject_lost_commits,
)
from tests.tables.power_loss import PowerLoss


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that names the boot of the machine."""
    path = tmp_path / "boot_id"
    path.write_text("first\n")
    monkeypatch.setattr(checkpoint_mark, "_BOOT_ID", path)
    return path


@pytest.mark.parametrize("folder", ["{}", "file://{}"])
def test_a_mark_is_read_as_it_was_written(tmp_path: Path, boots: Path, folder: str) -> None:
    mark = MarkFile(folder.format(tmp_path))
    assert (mark.read(), mark.is_of_earlier_boot()) == (None, False)
    mark.begin({"share_groups": -1})
    mark.write({"share_groups": 7})
    assert mark.read() == CheckpointMark("first", {"share_groups": 7})
    assert not mark.is_of_earlier_boot()
    boots.write_text("second\n")
    assert MarkFile(folder.format(tmp_path)).is_of_earlier_boot()
    mark.write({"share_groups": 8})
    assert mark.read() == CheckpointMark("first", {"share_groups": 8}), "the boot id is read once"


@pytest.mark.parametrize("text", [b"", b"\0\0\0", b'{"boot_id": "fir', b"[]", b'{"boot_id": "first", "committed": 3}'])
def test_a_torn_mark_is_of_an_earlier_boot(tmp_path: Path, boots: Path, text: bytes) -> None:
    (tmp_path / MARK).write_bytes(text)
    assert MarkFile(str(tmp_path)).is_of_earlier_boot()


def test_a_system_that_does_not_name_its_starts_has_none_that_is_earlier(tmp_path: Path, boots: Path) -> None:
    boots.unlink()
    mark = MarkFile(str(tmp_path))
    mark.begin({})
    assert (boot_id(), mark.is_of_earlier_boot()) == ("", False)


def test_there_is_no_mark_on_an_object_store() -> None:
    mark = MarkFile("s3a://bucket/checkpoint")
    mark.begin({"share_groups": 1})
    assert (mark.read(), mark.is_of_earlier_boot()) == (None, False)


def test_a_start_of_the_query_is_on_the_disk(tmp_path: Path, boots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    disk = PowerLoss(folder, monkeypatch)
    MarkFile(str(folder)).begin({"share_groups": 1})
    left = MarkFile(str(disk.left_in(tmp_path / "left")))
    assert left.read() == CheckpointMark("first", {"share_groups": 1})


def test_a_checkpoint_ahead_names_the_directories_to_remove() -> None:
    checkpoint = Checkpoint("/c/a", "query-1", 9, committed={"share_groups": 7, "share_partitions": 5})
    newest = {"share_groups": 8, "share_partitions": 5}
    reject_checkpoint_ahead(checkpoint, newest.__getitem__)
    reject_checkpoint_ahead(None, newest.__getitem__)
    newest["share_partitions"] = 4
    text = (
        "table share_partitions has lost commits: the checkpoint /c/a depends on batch 5 of query query-1, but "
        "the newest batch in the table is 4: remove that checkpoint and the other query's checkpoint /c/b, and "
    )
    with pytest.raises(StaleCheckpointError, match=text):
        reject_checkpoint_ahead(checkpoint, newest.__getitem__, "/c/b")


def test_lost_commits_are_found_without_the_checkpoint_of_their_query() -> None:
    checkpoint, newest = Checkpoint("/c/b", "query-2", 9), {("query-1", "share_partitions"): 5}
    info = {"query_id": "query-1", "committed": {"share_partitions": 5}}

    def newest_batch(query_id: str, table: str) -> int:
        return newest[query_id, table]

    for one, other_info in ((checkpoint, info), (checkpoint, None), (None, info)):
        reject_lost_commits(one, other_info, newest_batch)
    newest["query-1", "share_partitions"] = 4
    reject_lost_commits(None, info, newest_batch)
    with pytest.raises(StaleCheckpointError, match=r"share_partitions has lost commits: .* remove that checkpoint"):
        reject_lost_commits(checkpoint, info, newest_batch)
