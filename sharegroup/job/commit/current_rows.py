"""Keeps the rows of a table of current state in memory, and decides which files a commit rewrites.

Rows are grouped in chunks. Each chunk is a partition of the table, with one file. A commit writes only the chunks that
it changes. New rows fill the last chunk, because rows that are created together often change together. A row stays in
its chunk, and a removed row makes the chunk smaller. Two neighbouring chunks are merged if one of them changed and both
together fill at most half a chunk:

    chunk     0     1     2     3                         0     1     3
    rows   1000   400   300   700   - 250 rows of 1 ->  1000   450   700   written: 1; removed: 2 (its rows are in 1)

Two neighbours therefore always fill more than half a chunk, so a table has at most four chunks per thousand rows, plus
one. A change of one row writes at most a thousand rows, whatever the table's size.
"""

from collections.abc import Iterable

from sharegroup.job.commit.table_rows import DELETED
from sharegroup.storage.schemas import CHUNK, TableSpec
from sharegroup.storage.writing.versioned_table import Row, Write

#: The maximum number of rows in a chunk. To write this many rows takes about as long as the commit itself.
CHUNK_ROWS = 1_000

_Key = tuple[object, ...]
_Chunk = dict[_Key, Row]


class CurrentRows:
    """All rows of a table as of the last commit. `rows` has these rows as read from the table, each with its chunk.

    Staged rows count only after `apply_staged`, so a failed commit leaves no trace.
    """

    def __init__(self, spec: TableSpec, rows: Iterable[Row], chunk_rows: int = CHUNK_ROWS) -> None:
        self._spec, self._chunk_rows = spec, chunk_rows
        self._chunks: dict[int, _Chunk] = {}
        self._chunk_of: dict[_Key, int] = {}
        self._staged: dict[int, _Chunk] = {}
        for row in rows:
            self._staged.setdefault(row[CHUNK], {})[self._key(row)] = row
        self.apply_staged()

    def rows(self) -> list[Row]:
        """Return the rows, ordered by key."""
        return [self._chunks[chunk][key] for key, chunk in sorted(self._chunk_of.items())]

    def find_row(self, row: Row) -> Row | None:
        """Return the stored row that has the same key as `row`; None if there is none."""
        chunk = self._chunk_of.get(self._key(row))
        return None if chunk is None else self._chunks[chunk][self._key(row)]

    def stage(self, rows: Iterable[Row], now_ms: int) -> Write:
        """Stage rows to insert, replace or (if marked `DELETED`) remove, and return what the commit must write."""
        self._staged = {}
        last = max(self._chunks, default=0)
        for key, row in {self._key(row): row for row in rows}.items():
            chunk = self._chunk_of.get(key)
            if row.get(DELETED):
                if chunk is not None:
                    del self._stage(chunk)[key]
                continue
            if chunk is None:
                last += len(self._content(last)) >= self._chunk_rows
                chunk = last
            self._stage(chunk)[key] = {**row, "time": now_ms * 1000, CHUNK: chunk}
        self._merge_sparse()
        return Write([content[key] for content in self._staged.values() for key in sorted(content)], [*self._staged])

    def apply_staged(self) -> None:
        """Apply the staged rows after their commit."""
        before = {chunk: self._chunks.pop(chunk, {}) for chunk in self._staged}
        self._chunks |= {chunk: content for chunk, content in self._staged.items() if content}
        for chunk, content in self._staged.items():
            for key in before[chunk].keys() - content.keys():
                del self._chunk_of[key]
        for chunk, content in self._staged.items():
            self._chunk_of |= dict.fromkeys(content.keys() - before[chunk].keys(), chunk)
        self._staged = {}

    def _stage(self, chunk: int) -> _Chunk:
        """Return the staged rows of a chunk, for the caller to change. At first they are those of the last commit."""
        if chunk not in self._staged:
            self._staged[chunk] = dict(self._chunks.get(chunk, {}))
        return self._staged[chunk]

    def _merge_sparse(self) -> None:
        """Merge a chunk into the previous one if one of the two changed and both together fill at most half a chunk."""
        below = -1
        for chunk in sorted({*self._chunks, *self._staged}):
            rows = self._content(chunk)
            if not rows:
                continue
            is_touched = chunk in self._staged or below in self._staged
            is_sparse = len(self._content(below)) + len(rows) <= self._chunk_rows // 2
            if below >= 0 and is_touched and is_sparse:
                self._stage(below).update({key: {**row, CHUNK: below} for key, row in rows.items()})
                self._stage(chunk).clear()
            else:
                below = chunk

    def _content(self, chunk: int) -> _Chunk:
        return self._staged.get(chunk, self._chunks.get(chunk, {}))

    def _key(self, row: Row) -> _Key:
        return tuple(row[column] for column in self._spec.key)
