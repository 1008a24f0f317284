"""Groups whose rows are in the tables of another cell than the one that the configuration has them in."""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.config import NO_CELL, Config
from sharegroup.config.keys.cells import job_of_cell
from sharegroup.errors import ShareGroupError
from sharegroup.storage.reading.group_configs import read_group_configs
from sharegroup.storage.rows import TableMissingError, Tables
from sharegroup.storage.schemas import SHARE_GROUPS

_NAMED = 10


class StrayedGroupsError(ShareGroupError):
    """A job would begin a group anew that has its state elsewhere, or go on with one that another job has."""


def refuse_strayed_groups(config: Config) -> None:
    """Raise StrayedGroupsError when a group of this cell has rows in another one's tables, or one of another cell here.

    `config` is the file's, with the cell (`Config.of_cell`) but with the folders of all. A group that is on its way is
    in both tables. Raises TableUnavailableError when tables that are there cannot be read.
    """
    for cell in (NO_CELL, *config.cells.names) if config.cells.names else ():
        here = cell == config.cell
        there = set(groups_in(config, cell))
        strayed = [
            group_id
            for group_id in sorted(there)
            if config.cells.cell_of(group_id) != cell and (here or config.has_group(group_id))
        ]
        if strayed:
            named = ", ".join(strayed[:_NAMED]) + (", ..." if len(strayed) > _NAMED else "")
            raise StrayedGroupsError(
                f"the tables of {_named(cell)} have groups that the configuration has in another one: {named}. "
                "Move each by `sharegroup move-group`, or name the cell that has it in group.cells"
            )


def groups_in(config: Config, cell: str) -> Iterator[str]:
    """The groups that a cell's tables have, or whose configs they have; none where no job has run."""
    job = job_of_cell(config.all_cells, cell)
    tables = Tables(job.tables_path, job.delta_options)
    try:
        yield from (row["group_id"] for row in tables.rows(SHARE_GROUPS))
        yield from read_group_configs(tables)
    except TableMissingError:
        return


def _named(cell: str) -> str:
    return f"cell {cell}" if cell else "the job without cells"
