"""Moving from version to version by the files that differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.storage.following.rows_by_file import Key, Row, RowsByFile
from sharegroup.storage.schemas import SHARE_GROUPS


class Files:
    """A version with given files, `{path: {group id: epoch}}`, that records which files were read."""

    def __init__(self, content: Mapping[str, Mapping[str, int]], unreadable: str = "") -> None:
        self._content, self._unreadable = content, unreadable
        self.were_read: list[str] = []

    def paths(self) -> Collection[str]:
        return self._content.keys()

    def rows(self, path: str) -> list[Row]:
        if path == self._unreadable:
            raise OSError(path)
        self.were_read.append(path)
        return [{"group_id": group_id, "group_epoch": epoch} for group_id, epoch in self._content[path].items()]


def epochs(rows: Mapping[Key, Row]) -> dict[str, int]:
    assert all(key == (row["group_id"],) for key, row in rows.items())
    return {row["group_id"]: row["group_epoch"] for row in rows.values()}


#: A version: the content of each chunk. A file is named by its content, because the content of a path never changes.
CHUNKS = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8)


def version(rows: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    chunks: dict[int, dict[str, int]] = {}
    for group_id, (chunk, epoch) in sorted(rows.items()):
        chunks.setdefault(chunk, {})[group_id] = epoch
    return {f"{chunk}-{content}": content for chunk, content in chunks.items()}


@given(st.lists(CHUNKS, max_size=6))
def test_any_path_through_versions_returns_the_differences(versions: list[dict[str, tuple[int, int]]]) -> None:
    rows, before, seen = RowsByFile(SHARE_GROUPS), dict[str, int](), set[str]()
    for of_version in versions:
        files = Files(version(of_version))
        change = rows.update(files)
        after = {group_id: epoch for group_id, (_, epoch) in of_version.items()}
        assert epochs(rows.rows) == after
        assert epochs(change.changed) == dict(after.items() - before.items())
        assert epochs(change.removed) == {key: before[key] for key in before.keys() - after.keys()}
        assert bool(change) == (before != after)
        assert set(files.were_read) == set(files.paths()) - seen
        before, seen = after, set(files.paths())


def test_a_file_that_cannot_be_read_changes_nothing() -> None:
    rows = RowsByFile(SHARE_GROUPS)
    rows.update(Files({"0": {"a": 1}, "1": {"b": 1}}))
    later = {"1": {"b": 1}, "2": {"a": 2}, "3": {"c": 1}}
    with pytest.raises(OSError, match="3"):
        rows.update(Files(later, unreadable="3"))
    assert epochs(rows.rows) == {"a": 1, "b": 1}
    change = rows.update(Files(later))
    assert (epochs(change.changed), epochs(change.removed)) == ({"a": 2, "c": 1}, {})
