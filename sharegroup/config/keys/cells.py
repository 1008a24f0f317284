"""Section `cells`: several jobs side by side, each with its groups, topics and tables (ours)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from sharegroup.config.family import ConfigFamily, key
from sharegroup.config.keys.job import JobConfig
from sharegroup.types import is_topic_name

#: The one job of a configuration without cells.
NO_CELL = ""
_NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*")


def _names(value: object) -> object:
    """A list, or a text with commas."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError("Not a list")
    texts = tuple(str(name).strip() for name in names if str(name).strip())
    wrong = [name for name in texts if not _NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"Not a cell's name: {', '.join(wrong)}")
    if len(set(texts)) < len(texts):
        raise ValueError("A cell is named twice")
    return texts


def _groups(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("Not a mapping of group ids to cells")
    return {str(group_id): str(cell) for group_id, cell in value.items()}


class CellsConfig(ConfigFamily):
    """Keys of the section `cells`; without names there is one job, `NO_CELL`."""

    names: Annotated[tuple[str, ...], BeforeValidator(_names)] = key(
        "cell.names",
        (),
        "Cells (experimental): jobs side by side, each with own groups, topics and tables; none: one job.",
        allowed="a list of names of small letters, digits and hyphens",
    )
    groups: Annotated[dict[str, str], BeforeValidator(_groups)] = key(
        "group.cells",
        {},
        "The cells of groups, by group id; a group that is not here has one by its id.",
        allowed="mapping of group ids to cells",
    )

    def cell_of(self, group_id: str) -> str:
        """The cell of a group: the one that is named for it, else that with the highest SHA-256 of "cell\\ngroup".

        So a cell that is added takes groups from the others, and gives none from one of them to another.
        """
        if group_id in self.groups:
            return self.groups[group_id]
        return max(self.names, key=lambda cell: _weight(cell, group_id), default=NO_CELL)

    def problems(self, job: JobConfig) -> list[str]:
        """What is wrong between the keys, in sentences."""
        unknown = sorted({cell for cell in self.groups.values() if cell not in self.names})
        problems = [f"group.cells names the cell {cell}, which cell.names does not have" for cell in unknown]
        for cell in self.names:
            topics = job_of_cell(job, cell).topics
            problems += [
                f"cell {cell}: {topic} is not a name that a topic can have"
                for topic in topics
                if not is_topic_name(topic)
            ]
        return problems


def job_of_cell(job: JobConfig, cell: str) -> JobConfig:
    """The section `job` as one cell has it: folders below those that are given, topics with the cell's name behind."""
    if cell == NO_CELL:
        return job
    folders = {name: f"{getattr(job, name).rstrip('/')}/{cell}" for name in ("tables_path", "checkpoint_path")}
    names = ("group_requests_topic", "partition_requests_topic", "responses_topic")
    topics = {name: f"{getattr(job, name)}-{cell}" for name in names}
    return job.model_copy(update=folders | topics)


def _weight(cell: str, group_id: str) -> bytes:
    return hashlib.sha256(f"{cell}\n{group_id}".encode()).digest()
