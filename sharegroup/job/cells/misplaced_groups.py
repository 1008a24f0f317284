"""Detects groups whose rows are in the tables of another cell than the configured one."""

from collections.abc import Iterator

from sharegroup.config import NO_CELL, Config
from sharegroup.config.keys.cells import job_of_cell
from sharegroup.errors import ShareGroupError
from sharegroup.storage.reading.group_configs import read_group_configs
from sharegroup.storage.rows import DeltaTables, TableMissingError
from sharegroup.storage.schemas import SHARE_GROUPS

_NAMED = 10


class MisplacedGroupsError(ShareGroupError):
    """A cell's tables have groups that the configuration assigns to another cell. The job does not start."""


def reject_misplaced_groups(config: Config) -> None:
    """Check that other cells' tables have no group of this cell, and this cell's tables no group of another cell.

    `config` is the configuration file with this cell selected (`Config.for_cell`). While a group is being moved, the
    tables of both cells have it, so the check fails for both jobs. Raises MisplacedGroupsError if the check fails, and
    TableUnavailableError if existing tables cannot be read.
    """
    for cell in (NO_CELL, *config.cells.names) if config.cells.names else ():
        here = cell == config.cell
        there = set(read_cell_groups(config, cell))
        misplaced = [
            group_id
            for group_id in sorted(there)
            if config.cells.cell_of(group_id) != cell and (here or config.has_group(group_id))
        ]
        if misplaced:
            named = ", ".join(misplaced[:_NAMED]) + (", ..." if len(misplaced) > _NAMED else "")
            raise MisplacedGroupsError(
                f"the tables of {_named(cell)} have groups that the configuration assigns to another cell: {named}. "
                "Move each with `sharegroup move-group`, or correct group.cells"
            )


def read_cell_groups(config: Config, cell: str) -> Iterator[str]:
    """Yield the ids of the groups that have rows or configs in a cell's tables; some ids are yielded twice.

    If the tables do not exist yet, yield none.
    """
    job = job_of_cell(config.all_cells, cell)
    tables = DeltaTables(job.tables_path, job.delta_options)
    try:
        yield from (row["group_id"] for row in tables.rows(SHARE_GROUPS))
        yield from read_group_configs(tables)
    except TableMissingError:
        return


def _named(cell: str) -> str:
    return f"cell {cell}" if cell else "the job without cells"
