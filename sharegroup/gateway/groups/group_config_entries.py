"""Configs `share.*` of groups and `group.share.*` of brokers, as DescribeConfigs returns them."""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from sharegroup.config import Config, GroupOverrides, ShareGroupConfig
from sharegroup.config.family import ConfigFamily, text_of
from sharegroup.config.keys.group import JOB_KEYS

#: Prefixes of group configs that the upstream cluster stores. The gateway handles or rejects all other group configs.
UPSTREAM_PREFIXES = ("consumer.", "streams.")
#: Prefix of broker configs whose values come from the job's configuration file, not from the upstream brokers.
JOB_PREFIX = "group.share."
#: Configs of the job that Kafka has only for groups, not for brokers.
_NOT_BROKER_CONFIGS = ("group.share.auto.offset.reset", "group.share.isolation.level")


class Source(IntEnum):
    """Kafka's ids of the sources of config values."""

    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """Kafka's ids of the types of config values."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LIST = 7


class Synonym(NamedTuple):
    """A possible source of a config's value: the name of a config, the value as text, and Kafka's source id."""

    name: str
    value: str
    source: Source


class ConfigEntry(NamedTuple):
    """A config in a response. Its first synonym provides the value. The later synonyms are fallbacks, in order."""

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
        """The source of the value in force."""
        return self.synonyms[0].source


def config_entries(
    stored: Mapping[str, str], of_file: GroupOverrides, job: ShareGroupConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Return the configs of a group. If `names` is not None, return only the configs with these names.

    `stored` is {config name: value that a request has set}. `of_file` is the group's entry in the section `groups` of
    the configuration file. `job` is the section `group` of this file.
    """
    return [
        ConfigEntry(name, tuple(_synonyms(name, stored, of_file, job)), _config_type(name), key.doc)
        for name, key in GroupOverrides.config_keys().items()
        if names is None or name in names
    ]


def broker_entries(config: Config, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Return the configs `group.share.*` of a broker. If `names` is not None, return only the configs with these names.

    The result contains configs of the job, and the gateway's limit of share sessions.
    """
    return [
        ConfigEntry(name, tuple(_broker_synonyms(name, family)), _type_of(key.default), key.doc)
        for family in (config.group, config.gateway)
        for name, key in family.config_keys().items()
        if is_job_config(name) and (names is None or name in names)
    ]


def is_job_config(name: str) -> bool:
    """Return whether a broker config can be set only in the job's configuration file."""
    return name.startswith(JOB_PREFIX)


def is_upstream_config(name: str) -> bool:
    """Return whether the upstream cluster stores this group config, so that requests for it are forwarded there."""
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
        yield Synonym(name, text_of(GroupOverrides.config_keys()[name].default), Source.DEFAULT_CONFIG)
        return
    of_job = job.set_values()
    if job_name in of_job:
        yield Synonym(job_name, _group_value(of_job[job_name]), Source.STATIC_BROKER_CONFIG)
    default = _group_value(ShareGroupConfig.config_keys()[job_name].default)
    yield Synonym(name if job_name in _NOT_BROKER_CONFIGS else job_name, default, Source.DEFAULT_CONFIG)


def _broker_synonyms(name: str, family: ConfigFamily) -> Iterator[Synonym]:
    in_file = family.set_texts()
    if name in in_file:
        yield Synonym(name, in_file[name], Source.STATIC_BROKER_CONFIG)
    yield Synonym(name, text_of(family.config_keys()[name].default), Source.DEFAULT_CONFIG)


def _group_value(of_job: object) -> str:
    """Return the text of the value that a group uses if it does not set the config itself.

    This is `of_job`, the value of the job's config. If it is a list (`group.share.assignors`), the group uses its first
    element.
    """
    return text_of(of_job[0] if type(of_job) is tuple else of_job)  # not for a NamedTuple, which is a single value


def _config_type(name: str) -> ConfigType:
    default = GroupOverrides.config_keys()[name].default
    if default is not None:
        return _type_of(default)
    found = _type_of(ShareGroupConfig.config_keys()[JOB_KEYS[name]].default)
    return ConfigType.STRING if found is ConfigType.LIST else found  # a group has one element of the list


def _type_of(default: object) -> ConfigType:
    if isinstance(default, bool):
        return ConfigType.BOOLEAN
    if type(default) is tuple:
        return ConfigType.LIST
    return ConfigType.INT if isinstance(default, int) else ConfigType.STRING
