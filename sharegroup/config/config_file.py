"""The whole configuration of a job, and the effective values for one of its groups."""

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
    """A group's effective config values, with a warning for each stored value that is ignored or clamped."""

    config: GroupConfig
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """The content of a configuration file.

    `Config()` has Kafka's defaults for Kafka's keys, except that it allows more records in flight. The section `group`
    of the file is divided into `group` (keys group.share.*) and `coordinator` (keys share.coordinator.*).
    """

    job: JobConfig = field(default_factory=JobConfig)
    group: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    coordinator: ShareCoordinatorConfig = field(default_factory=ShareCoordinatorConfig)
    groups: Mapping[str, GroupOverrides] = field(default_factory=dict)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    cells: CellsConfig = field(default_factory=CellsConfig)
    #: The cell (one of several jobs) that this configuration is for. If set, `job` has the cell's folders, topics and
    #: metrics port.
    cell: str = NO_CELL
    _file_job: JobConfig | None = field(default=None, compare=False, repr=False)

    def for_cell(self, cell: str) -> Config:
        """Return the configuration of a cell's job. Raise InvalidConfigError if the cell is not in `cell.names`."""
        if cell not in (self.cells.names or (NO_CELL,)):
            known = ", ".join(self.cells.names) or "none"
            raise InvalidConfigError(
                "cells", [f"Cell {cell!r} is not in cell.names ({known}); set --cell to one of them"]
            )
        job = job_of_cell(self.all_cells, cell)
        if job.metrics_port:
            index = self.cells.names.index(cell) if cell else 0
            job = job.model_copy(update={"metrics_port": job.metrics_port + index})
        return dataclasses.replace(self, job=job, cell=cell, _file_job=self.all_cells)

    @property
    def all_cells(self) -> JobConfig:
        """The section `job` of the file, which all cells share. `for_cell` does not change it."""
        return self._file_job or self.job

    @property
    def row_topics(self) -> frozenset[str]:
        """The request and response topics of all cells."""
        cells = self.cells.names or (NO_CELL,)
        return frozenset(topic for cell in cells for topic in job_of_cell(self.all_cells, cell).topics)

    def job_for(self, group_id: str) -> JobConfig:
        """Return the section `job` for the cell of a group. It has the topics and tables that the group uses."""
        return job_of_cell(self.all_cells, self.cells.cell_of(group_id))

    def has_group(self, group_id: str) -> bool:
        """Return whether the group is in the cell of this configuration, so that the cell's job serves the group."""
        return self.cells.cell_of(group_id) == self.cell

    def group_config(self, group_id: str) -> GroupConfig:
        """Return the effective values of a group from the file alone, without values stored by AlterConfigs."""
        return GroupConfig.from_overrides(self.group, self._overrides(group_id))

    def effective_group_config(self, group_id: str, stored: Mapping[str, object]) -> EffectiveGroupConfig:
        """Return the effective values of a group. Values in `stored` take precedence over the file.

        `stored` is {dotted name: value or its text}, as in the table `share_group_configs`. Unknown names and invalid
        values are ignored, and values that violate the job's rules are replaced or removed (`clamp`, KIP-1240). Each
        such value adds a sentence to `warnings`. No error is raised, because a stored value must not stop a group.
        """
        unknown = [name for name in stored if name not in GroupOverrides.config_keys()]
        known = {name: value for name, value in stored.items() if name not in unknown}
        checked = check_family(GroupOverrides, known)
        clamped = clamp(self._overrides(group_id).set_values() | checked.family.set_values(), self.group)
        warnings = [f"Unknown group config name: {name}" for name in unknown]
        config = GroupConfig.from_overrides(self.group, GroupOverrides.model_validate(clamped.values))
        return EffectiveGroupConfig(config, (*warnings, *checked.problems, *clamped.warnings))

    def _overrides(self, group_id: str) -> GroupOverrides:
        return self.groups.get(group_id) or GroupOverrides()
