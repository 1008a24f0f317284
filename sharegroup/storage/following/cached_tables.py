"""The tables of current state, with a cache of their data files: `rows` fetches only files that are new."""

import threading
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.storage.following.rows_by_file import DeltaFiles
from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.storage.schemas import TableSpec


class CachedTables(DeltaTables):
    """Tables whose data files are cached by `rows` for as long as the newest version has them.

    `rows` fetches only new files; `select` does not use the cache. The files are cached as Arrow tables, which take a
    tenth of the space of Python rows. Each read opens the table again, so a table that was deleted and created again is
    detected. The class is thread-safe.
    """

    def __init__(self, tables_path: str, storage_options: StorageOptions = None) -> None:
        super().__init__(tables_path, storage_options)
        self._cached: dict[str, Mapping[str, pa.Table]] = {}
        self._reading = threading.Lock()

    def _read(self, spec: TableSpec, group_ids: Collection[str] | None) -> pa.Table:
        with self._reading:
            files = DeltaFiles(self.open(spec), spec, self._options)
            known = self._cached.get(spec.name, {})
            found = {path: known[path] if path in known else files.table(path) for path in files.paths()}
            self._cached[spec.name] = found
        rows = pa.concat_tables([files.schema.empty_table(), *found.values()])
        if group_ids is None:
            return rows
        return rows.filter(pc.is_in(rows["group_id"], pa.array(sorted(group_ids), pa.string())))
