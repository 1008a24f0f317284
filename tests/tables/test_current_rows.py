"""Which chunks a change of rows rewrites, and that all chunks together equal a plain dict."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.job.commit.current_rows import CurrentRows
from sharegroup.storage.schemas import SHARE_GROUPS
from sharegroup.storage.writing.versioned_table import Row, Write

CHUNK_ROWS = 8
HALF = CHUNK_ROWS // 2


class Table:
    """A table that `CurrentRows` writes: each commit's rows replace those of its chunks."""

    def __init__(self, chunk_rows: int = CHUNK_ROWS) -> None:
        self.chunk_rows = chunk_rows
        self.chunks: dict[int, list[Row]] = {}
        self.current = CurrentRows(SHARE_GROUPS, (), chunk_rows)

    def commit(self, *rows: Row, now_ms: int = 0) -> Write:
        write = self.current.stage(rows, now_ms)
        self.current.apply_staged()
        for chunk in write.chunks:
            self.chunks.pop(chunk, None)
        for row in write.rows:
            self.chunks.setdefault(row["chunk"], []).append(row)
        assert self.chunks.keys() & set(write.chunks) == {row["chunk"] for row in write.rows}
        return write

    def put(self, names: Iterable[str], epoch: int = 1) -> set[int]:
        return set(self.commit(*(group(name, epoch) for name in names)).chunks)

    def remove(self, names: Iterable[str]) -> set[int]:
        return set(self.commit(*(gone(name) for name in names)).chunks)

    def rows(self) -> list[Row]:
        return [row for _, rows in sorted(self.chunks.items()) for row in rows]

    def start_again(self) -> None:
        """Start the next leader, which has only the table."""
        self.current = CurrentRows(SHARE_GROUPS, self.rows(), self.chunk_rows)

    @property
    def names(self) -> list[str]:
        return ["".join(row["group_id"] for row in rows) for _, rows in sorted(self.chunks.items())]


def group(name: str, epoch: int = 1) -> Row:
    return {"group_id": name, "group_epoch": epoch}


def gone(name: str) -> Row:
    return {"group_id": name, "_deleted": True}


NAMES = st.integers(0, 60).map(lambda number: chr(ord("0") + number))
COMMITS = st.lists(
    st.one_of(
        st.lists(st.tuples(NAMES, st.integers(0, 2)), max_size=24),  # epoch 0: removed
        st.just("start again"),
        st.just("comes to nothing"),
    ),
    max_size=20,
)


@given(COMMITS)
def test_chunks_have_all_rows_and_are_neither_too_large_nor_too_many(
    commits: list[list[tuple[str, int]] | str],
) -> None:
    table, model = Table(), dict[str, tuple[int, int]]()
    for now_ms, commit in enumerate(commits):
        if commit == "start again":
            table.start_again()
        elif commit == "comes to nothing":
            table.current.stage([group("0", 9), gone("1"), group("new")], now_ms)
        else:
            assert not isinstance(commit, str)
            before = {row["group_id"]: row["chunk"] for row in table.rows()}
            write = table.commit(*(group(n, e) if e else gone(n) for n, e in commit), now_ms=now_ms)
            for name, epoch in commit:
                model.pop(name, None)
                if epoch:
                    model[name] = epoch, now_ms
            check_cost(write, before, {name for name, _ in commit}, table)
        check_content(table, model)
        sizes = [len(rows) for _, rows in sorted(table.chunks.items())]
        assert all(0 < size <= CHUNK_ROWS for size in sizes)
        assert all(first + second > HALF for first, second in itertools.pairwise(sizes))


def check_content(table: Table, model: dict[str, tuple[int, int]]) -> None:
    of_table = {row["group_id"]: (row["group_epoch"], row["time"] // 1000) for row in table.rows()}
    assert of_table == model
    rows = table.current.rows()
    assert [row["group_id"] for row in rows] == sorted(model)
    assert all(table.current.find_row(group(row["group_id"])) == row for row in rows)
    assert {row["group_id"]: row["chunk"] for row in rows} == {row["group_id"]: row["chunk"] for row in table.rows()}


def check_cost(write: Write, before: dict[str, int], named: set[str], table: Table) -> None:
    """Check that a chunk is written only for a named row, or for one in the same merged chunk."""
    after = {row["group_id"]: row["chunk"] for row in table.rows()}
    needed = {before[name] for name in named & before.keys()} | {after[name] for name in named & after.keys()}
    moved = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    merged = {before[name] for name in moved} | {after[name] for name in moved}
    assert set(write.chunks) == needed | merged
    for chunk in {after[name] for name in moved}:
        assert sum(row["chunk"] == chunk for row in write.rows) <= HALF


def test_new_rows_fill_the_last_chunk_and_then_the_next() -> None:
    table = Table(chunk_rows=4)
    assert (table.put("dcb"), table.names) == ({0}, ["bcd"])
    assert (table.put("aefghi"), table.names) == ({0, 1, 2}, ["abcd", "efgh", "i"])
    assert (table.put("j"), table.names) == ({2}, ["abcd", "efgh", "ij"])


def test_a_row_stays_where_it_is_and_costs_its_chunk() -> None:
    table = Table(chunk_rows=4)
    table.put("abcdefghij")
    assert table.put("f", epoch=2) == {1}
    assert table.put("ai", epoch=2) == {0, 2}
    assert table.names == ["abcd", "efgh", "ij"]
    table.start_again()
    assert (table.put("f", epoch=3), table.put("k")) == ({1}, {2})


def test_a_row_that_goes_leaves_its_chunk_smaller() -> None:
    table = Table(chunk_rows=4)
    table.put("abcdefgh")
    assert (table.remove("b"), table.names) == ({0}, ["acd", "efgh"])
    assert (table.put("i"), table.names) == ({2}, ["acd", "efgh", "i"])
    assert (table.remove("i"), table.names) == ({2}, ["acd", "efgh"])
    assert (table.remove("acdefgh"), table.names) == ({0, 1}, [])
    assert (table.put("z"), table.names) == ({0}, ["z"])


def test_nothing_is_touched_by_rows_that_are_not_there() -> None:
    table = Table()
    table.put("ab")
    assert table.commit() == table.commit(gone("x")) == table.commit(group("x"), gone("x")) == Write([], [])


def test_sparse_neighbours_are_merged_when_one_of_them_changes() -> None:
    table = Table()
    table.put("abcdefghABCDEFGH01234567")
    assert (table.remove("abcdef"), table.names) == ({0}, ["gh", "ABCDEFGH", "01234567"])
    assert (table.remove("ABCDEF"), table.names) == ({0, 1}, ["GHgh", "01234567"])
    assert (table.remove("01234567"), table.names) == ({2}, ["GHgh"])
    assert (table.put("i"), table.names) == ({0}, ["GHghi"])


def test_a_row_removed_and_added_in_one_commit_stays_in_its_chunk() -> None:
    table = Table(chunk_rows=2)
    table.put("abcd")
    assert set(table.commit(gone("a"), group("a", 2)).chunks) == {0}
    assert table.current.find_row(group("a")) == {"group_id": "a", "group_epoch": 2, "time": 0, "chunk": 0}


@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_a_failed_commit_leaves_no_trace(rows: int) -> None:
    table = Table(chunk_rows=1_000)
    table.commit(*(group(str(number)) for number in range(rows)))
    before = table.current.rows()
    table.current.stage([group("0", 2), gone("1"), group("new")], 1)
    assert table.current.rows() == before
    assert table.current.find_row(group("new")) is None
    assert set(table.commit(group("0", 3)).chunks) == {0}
    assert len(table.current.rows()) == max(rows, 1)
