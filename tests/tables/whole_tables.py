"""Tables of current state as they were before they had chunks: one file, which each commit wrote anew."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from sharegroup.commit.delta_commit import NO_HOOKS, commit_properties
from sharegroup.commit.delta_table import DeltaVersions
from sharegroup.commit.table_writer import TableWriter
from sharegroup.commit.versioned_table import NotCommittedError, Row, Stamp, Write
from sharegroup.tables.schemas import CHUNK, GROUP_COORDINATOR_TABLES, TableSpec

_NUMBERS = itertools.count(1)


def without_chunks(spec: TableSpec) -> TableSpec:
    """The table as it was; one that grows is as it is."""
    if spec.is_append_only:
        return spec
    schema = pa.schema([field for field in spec.schema if field.name != CHUNK])
    return dataclasses.replace(spec, schema=schema, partition_by=())


WHOLE_GROUP_TABLES = tuple(map(without_chunks, GROUP_COORDINATOR_TABLES))


class WholeTable(DeltaVersions):
    """What the writer of now has as chunks was one file then."""

    _chunks: Mapping[int, Sequence[Row]] = {}

    def rows(self) -> list[Row]:
        rows = [{**row, CHUNK: 0} for row in super().rows()]
        self._chunks = {0: rows}
        return rows

    def write(self, write: Write, stamp: Stamp) -> None:
        chunks = {chunk: rows for chunk, rows in self._chunks.items() if chunk not in write.chunks}
        for row in write.rows:
            chunks[row[CHUNK]] = [*chunks.get(row[CHUNK], ()), row]
        rows = [row for rows in chunks.values() for row in rows] if write.chunks else []
        try:
            write_deltalake(
                self._table,
                pa.Table.from_pylist(rows, schema=self.spec.schema),
                mode="overwrite" if write.chunks else "append",
                commit_properties=commit_properties(stamp),
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError as error:
            raise NotCommittedError(str(error)) from error
        self._chunks = chunks


def whole_table_writer(root: str, spec: TableSpec) -> TableWriter:
    """Of the job of then."""
    return TableWriter(WholeTable(root, spec), f"before-{next(_NUMBERS)}")
