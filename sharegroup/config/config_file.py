"""The whole configuration of a job, and the values in force for one of its groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.config.family import check_family
from sharegroup.config.keys.cells import NO_CELL, CellsConfig, job_of_cell
from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.config.keys.group import GroupConfig, GroupOverrides
from sharegroup.config.keys.job import JobConfig
from sharegroup.config.keys.share_coordinator import ShareCoordinatorConfig
from sharegroup.config.keys.share_group import ShareGroupConfig
from sharegroup.config.rules import clamp
from sharegroup.errors import InvalidConfigError


class EffectiveGroupConfig(NamedTuple):
    """A group's values in force, with one sentence for each stored value that could not be used as it is."""

    config: GroupConfig
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """What `load_config` returns; `Config()` is Kafka's defaults where Kafka has the key, but for more record locks.

    `group` and `coordinator` are the section `group` of the file (group.share.* and share.coordinator.*).
    """

    job: JobConfig = field(default_factory=JobConfig)
    group: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    coordinator: ShareCoordinatorConfig = field(default_factory=ShareCoordinatorConfig)
    groups: Mapping[str, GroupOverrides] = field(default_factory=dict)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    cells: CellsConfig = field(default_factory=CellsConfig)
    #: The cell whose job this is the configuration of: `job` has its folders and topics then.
    cell: str = NO_CELL
    _file_job: JobConfig | None = field(default=None, compare=False, repr=False)

    def of_cell(self, cell: str) -> Config:
        """The configuration of one cell's job. Raises InvalidConfigError for a cell that is not among `cell.names`."""
        if cell not in (self.cells.names or (NO_CELL,)):
            named = ", ".join(self.cells.names) or "none"
            raise InvalidConfigError("cells", [f"{cell!r} is not a cell of cell.names ({named}): name one by --cell"])
        job = job_of_cell(self.all_cells, cell)
        if job.metrics_port:
            place = self.cells.names.index(cell) if cell else 0
            job = job.model_copy(update={"metrics_port": job.metrics_port + place})
        return dataclasses.replace(self, job=job, cell=cell, _file_job=self.all_cells)

    @property
    def all_cells(self) -> JobConfig:
        """The section `job` as the file has it, before any cell's folders and topics."""
        return self._file_job or self.job

    @property
    def row_topics(self) -> frozenset[str]:
        """The topics of requests and responses of all cells' jobs."""
        cells = self.cells.names or (NO_CELL,)
        return frozenset(topic for cell in cells for topic in job_of_cell(self.all_cells, cell).topics)

    def job_of(self, group_id: str) -> JobConfig:
        """The section `job` of the cell that has the group: its topics, for clients, and its tables."""
        return job_of_cell(self.all_cells, self.cells.cell_of(group_id))

    def has_group(self, group_id: str) -> bool:
        """Whether the job of this configuration is the one that has the group."""
        return self.cells.cell_of(group_id) == self.cell

    def group_config(self, group_id: str) -> GroupConfig:
        """The values in force for a group by the file alone."""
        return GroupConfig.of(self.group, self._overrides(group_id))

    def effective(self, group_id: str, stored: Mapping[str, object]) -> EffectiveGroupConfig:
        """The values in force when `stored` (dotted name -> value or its text, from a table) goes before the file.

        Never raises: the values are there already, and a group must not stop for them. What is unknown or wrong is
        ignored, what is outside the job's min and max is clamped (KIP-1240); each is told in `warnings`.
        """
        unknown = [name for name in stored if name not in GroupOverrides.config_keys()]
        known = {name: value for name, value in stored.items() if name not in unknown}
        checked = check_family(GroupOverrides, known)
        clamped = clamp(self._overrides(group_id).set_values() | checked.family.set_values(), self.group)
        warnings = [f"Unknown group config name: {name}" for name in unknown]
        config = GroupConfig.of(self.group, GroupOverrides.model_validate(clamped.values))
        return EffectiveGroupConfig(config, (*warnings, *checked.problems, *clamped.warnings))

    def _overrides(self, group_id: str) -> GroupOverrides:
        return self.groups.get(group_id) or GroupOverrides()
