"""A group's `share.*` configs as DescribeConfigs tells of them: values, where they come from, types, docs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from sharegroup.config import GroupOverrides, ShareGroupConfig
from sharegroup.config.family import text_of
from sharegroup.config.group import JOB_KEYS
from sharegroup.config.reference import default_text

#: Configs of consumer and of streams groups are the upstream's; any other name is ours to know, or to refuse.
UPSTREAM_PREFIXES = ("consumer.", "streams.")


class Source(IntEnum):
    """Kafka's ids of where a value comes from."""

    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """Kafka's ids of a value's type."""

    BOOLEAN = 1
    STRING = 2
    INT = 3


class Synonym(NamedTuple):
    """A name under which a value is given, and the value as text."""

    name: str
    value: str
    source: Source


class ConfigEntry(NamedTuple):
    """A config; the first of its synonyms is in force, the others would be, in this order, without those before."""

    name: str
    synonyms: tuple[Synonym, ...]
    config_type: ConfigType
    documentation: str

    @property
    def value(self) -> str:
        """The value in force, as text."""
        return self.synonyms[0].value

    @property
    def source(self) -> Source:
        """Where the value in force comes from."""
        return self.synonyms[0].source


def config_entries(
    stored: Mapping[str, str], of_file: GroupOverrides, job: ShareGroupConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a group, or those named: `stored` (set by requests), the file's section `groups`, and `group`."""
    return [
        ConfigEntry(name, tuple(_synonyms(name, stored, of_file, job)), _config_type(name), key.doc)
        for name, key in GroupOverrides.config_keys().items()
        if names is None or name in names
    ]


def is_upstreams(name: str) -> bool:
    """Whether a config of a group is the upstream's to set and to describe."""
    return name.startswith(UPSTREAM_PREFIXES)


def _synonyms(
    name: str, stored: Mapping[str, str], of_file: GroupOverrides, job: ShareGroupConfig
) -> Iterator[Synonym]:
    if name in stored:
        yield Synonym(name, stored[name], Source.DYNAMIC_GROUP_CONFIG)
    in_file = of_file.set_texts()
    if name in in_file:
        yield Synonym(name, in_file[name], Source.STATIC_BROKER_CONFIG)
    job_name = JOB_KEYS.get(name)
    if job_name is None:
        yield Synonym(name, default_text(GroupOverrides.config_keys()[name]), Source.DEFAULT_CONFIG)
        return
    of_job = job.set_values()
    if job_name in of_job:
        yield Synonym(job_name, _for_a_group(of_job[job_name]), Source.STATIC_BROKER_CONFIG)
    yield Synonym(job_name, _for_a_group(ShareGroupConfig.config_keys()[job_name].default), Source.DEFAULT_CONFIG)


def _for_a_group(of_job: object) -> str:
    """What a job-level value means for a group that has none: of a list, its first."""
    return text_of(of_job[0] if isinstance(of_job, tuple) else of_job)


def _config_type(name: str) -> ConfigType:
    default = GroupOverrides.config_keys()[name].default
    if default is None:
        default = ShareGroupConfig.config_keys()[JOB_KEYS[name]].default
    if isinstance(default, bool):
        return ConfigType.BOOLEAN
    return ConfigType.INT if isinstance(default, int) else ConfigType.STRING
