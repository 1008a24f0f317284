"""Load a Config from a YAML file. One InvalidConfigError lists all problems of the file."""

from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sharegroup.config.config_file import Config
from sharegroup.config.family import ConfigFamily, check_family
from sharegroup.config.keys.cells import CellsConfig
from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.config.keys.group import GroupOverrides
from sharegroup.config.keys.job import JobConfig
from sharegroup.config.keys.share_coordinator import ShareCoordinatorConfig
from sharegroup.config.keys.share_group import ShareGroupConfig
from sharegroup.config.nearest_name import nearest_hint
from sharegroup.config.rules import group_problems, job_problems
from sharegroup.errors import InvalidConfigError

#: {section: families of its keys}, for all sections except `groups`, which has GroupOverrides for each group id.
SECTIONS: Mapping[str, tuple[type[ConfigFamily], ...]] = {
    "job": (JobConfig,),
    "group": (ShareGroupConfig, ShareCoordinatorConfig),
    "gateway": (GatewayConfig,),
    "cells": (CellsConfig,),
}
_GROUPS = "groups"


def load_config(path: str | Path) -> Config:
    """Load a YAML file. Raise InvalidConfigError if it is missing, is not valid YAML or has invalid values."""
    source = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidConfigError(source, [f"Cannot read the file: {reason}"]) from None
    try:
        content = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise InvalidConfigError(source, [_syntax_problem(error)]) from None
    if content is not None and not isinstance(content, Mapping):
        raise InvalidConfigError(
            source, ["The file must be a mapping of the sections job, group, groups, gateway and cells"]
        )
    return parse_config(content or {}, source)


def parse_config(mapping: Mapping[str, object], source: str) -> Config:
    """Create a Config from `mapping`, the parsed content of a file as {section: content}.

    If there are problems, raise one InvalidConfigError that lists all of them. The error names the file by `source`.
    """
    names = (*SECTIONS, _GROUPS)
    problems = [f"Unknown section {name}{nearest_hint(str(name), names)}" for name in mapping if name not in names]
    job = check_family(JobConfig, _known_keys("job", mapping, problems))
    section = _known_keys("group", mapping, problems)
    group = check_family(ShareGroupConfig, _part(section, ShareGroupConfig))
    coordinator = check_family(ShareCoordinatorConfig, _part(section, ShareCoordinatorConfig))
    gateway = check_family(GatewayConfig, _known_keys("gateway", mapping, problems))
    cells = check_family(CellsConfig, _known_keys("cells", mapping, problems))
    problems += (*job.problems, *group.problems, *coordinator.problems, *gateway.problems, *cells.problems)
    problems += cells.family.problems(job.family)
    problems += job_problems({**group.family.values(), **gateway.family.values()}, {*group.wrong, *gateway.wrong})
    groups = {}
    for group_id, values in _mapping(_GROUPS, mapping.get(_GROUPS), problems).items():
        given = _mapping(f"{_GROUPS}.{group_id}", values, problems)
        groups[str(group_id)], found = check_group_overrides(given, group.family, group.wrong, str(group_id))
        problems += [f"group {group_id}: {problem}" for problem in found]
    if problems:
        raise InvalidConfigError(source, problems)
    return Config(job.family, group.family, coordinator.family, groups, gateway.family, cells.family)


def check_group_overrides(
    given: Mapping[str, object], job: ShareGroupConfig, wrong: Collection[str] = (), group_id: str = ""
) -> tuple[GroupOverrides, list[str]]:
    """Check the configs `given` for a group, and return (the configs with valid values, a sentence for each problem).

    A value outside the limits in `job` is a problem, but it is returned nevertheless. The sentences use the words of
    Kafka's IncrementalAlterConfigs. `wrong` are the keys of `job` with invalid values. The group's configs are not
    compared with these values. If `group_id` is not empty, also check that the group does not mirror its offsets to
    itself.
    """
    known = GroupOverrides.config_keys()
    problems = [
        f"Unknown group config name: {name}{nearest_hint(str(name), known)}" for name in given if name not in known
    ]
    checked = check_family(GroupOverrides, {name: value for name, value in given.items() if name in known})
    problems += checked.problems
    problems += group_problems(checked.family, job, {*wrong, *checked.wrong})
    if group_id and checked.family.consumer_group_offset_mirror == group_id:
        # A consumer group with this name would prevent members from joining the share group.
        problems.append(f"share.consumer.group.offset.mirror must not be the group {group_id} itself")
    return checked.family, problems


def _known_keys(section: str, mapping: Mapping[str, object], problems: list[str]) -> dict[str, object]:
    known = {name for family in SECTIONS[section] for name in family.config_keys()}
    given = _mapping(section, mapping.get(section), problems)
    unknown = [name for name in given if name not in known]
    problems += [f"Unknown configuration {name} in section {section}{_hint(str(name), known)}" for name in unknown]
    return {name: value for name, value in given.items() if name in known}


def _part(section: Mapping[str, object], family: type[ConfigFamily]) -> dict[str, object]:
    return {name: value for name, value in section.items() if name in family.config_keys()}


def _mapping(name: str, value: object, problems: list[str]) -> Mapping[Any, Any]:
    """Return the content of a section, or {} if it is empty (null in YAML).

    If the content is not a mapping, add a sentence to `problems` and return {}.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    problems.append(f"Section {name} must be a mapping of keys to values")
    return {}


def _hint(name: str, known: Collection[str]) -> str:
    for section, families in SECTIONS.items():
        if any(name in family.config_keys() for family in families):
            return f"; it belongs in section {section}"
    if name in GroupOverrides.config_keys():
        return f"; it belongs to a group in section {_GROUPS}"
    return nearest_hint(name, known)


def _syntax_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "unreadable text"
    return f"Not valid YAML{f' at line {mark.line + 1}, column {mark.column + 1}' if mark else ''}: {problem}"


class _UniqueKeyLoader(yaml.SafeLoader):
    """A SafeLoader that rejects duplicate keys. PyYAML itself silently uses the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
