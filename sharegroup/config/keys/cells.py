"""Section `cells`: several jobs side by side, each with its own groups, topics and tables (not in Kafka)."""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from sharegroup.config.family import ConfigFamily, key
from sharegroup.config.keys.job import JobConfig
from sharegroup.types import is_topic_name

#: The name of the cell if the configuration has no cells, so that there is only one job.
NO_CELL = ""
_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")


def _names(value: object) -> object:
    """Parse the names of cells: a list, or names separated by commas in one text."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError("Not a list")
    texts = tuple(str(name).strip() for name in names if str(name).strip())
    wrong = [name for name in texts if not _NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"Malformed cell names: {', '.join(wrong)}")
    if len(set(texts)) < len(texts):
        raise ValueError("A cell name is listed twice")
    return texts


def _groups(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("Not a mapping of group ids to cells")
    return {str(group_id): str(cell) for group_id, cell in value.items()}


class CellsConfig(ConfigFamily):
    """Keys of the section `cells`. Without `cell.names` there is one job, whose cell is `NO_CELL`."""

    names: Annotated[tuple[str, ...], BeforeValidator(_names)] = key(
        "cell.names",
        (),
        "Names of the cells (experimental). A cell is a job with its own groups, topics and tables. Empty: one job "
        "without cells.",
        allowed="list of names of lower-case letters and digits, with single hyphens between them",
    )
    groups: Annotated[dict[str, str], BeforeValidator(_groups)] = key(
        "group.cells",
        {},
        "Cell of each listed group id. The cell of any other group is derived from its id.",
        allowed="mapping of group ids to cells",
    )

    def cell_of(self, group_id: str) -> str:
        """Return the cell of a group. Without cells, return NO_CELL.

        A group in `group.cells` has the cell that is listed there. Any other group has the cell for which the SHA-256
        hash of "cell\\ngroup" is the highest. When a cell is added, some groups move to the new cell, and no group
        moves between the existing cells.
        """
        if group_id in self.groups:
            return self.groups[group_id]
        return max(self.names, key=lambda cell: _weight(cell, group_id), default=NO_CELL)

    def problems(self, job: JobConfig) -> list[str]:
        """Return one sentence for each problem: an unknown cell in `group.cells`, or an invalid topic name."""
        unknown = sorted({cell for cell in self.groups.values() if cell not in self.names})
        problems = [f"group.cells has the cell {cell}, which is not in cell.names" for cell in unknown]
        for cell in self.names:
            topics = job_of_cell(job, cell).topics
            problems += [
                f"cell {cell}: {topic} is not a valid topic name" for topic in topics if not is_topic_name(topic)
            ]
        return problems


def job_of_cell(job: JobConfig, cell: str) -> JobConfig:
    """Return the section `job` for a cell. If `cell` is NO_CELL, return `job` unchanged.

    The tables and checkpoints of the cell are in subfolders of those of `job`. The names of its topics end with the
    cell's name.
    """
    if cell == NO_CELL:
        return job
    folders = {name: f"{getattr(job, name).rstrip('/')}/{cell}" for name in ("tables_path", "checkpoint_path")}
    names = ("group_requests_topic", "partition_requests_topic", "responses_topic")
    topics = {name: f"{getattr(job, name)}-{cell}" for name in names}
    return job.model_copy(update=folders | topics)


def _weight(cell: str, group_id: str) -> bytes:
    return hashlib.sha256(f"{cell}\n{group_id}".encode()).digest()
