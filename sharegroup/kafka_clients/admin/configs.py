"""Requests about configs of groups: DescribeConfigs, IncrementalAlterConfigs, ListConfigResources."""

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest

from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.errors import check
from sharegroup.kafka_clients.admin.results import ConfigEntry, ConfigSource

_GROUP = 32
_SET, _DELETE = 0, 1
#: The first version of ListConfigResources that supports groups (KIP-1142).
_TYPES_VERSION = 1

Configs = dict[str, ConfigEntry]


def describe_configs(brokers: Brokers, group_ids: Collection[str]) -> dict[str, Configs]:
    """Return {group: {config name: entry}} with all effective configs, sorted by name.

    If groups have errors, the first one is raised.
    """
    kind = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        kind(resource_type=_GROUP, resource_name=group_id, configuration_keys=None)
        for group_id in dict.fromkeys(group_ids)
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=False)
    results = brokers.request(request).results if resources else []
    for result in results:
        check(result.error_code, result.error_message)
    return {result.resource_name: _configs(result) for result in results}


def alter_configs(
    brokers: Brokers, group_id: str, values: Mapping[str, str], removed: Collection[str], validate_only: bool
) -> None:
    """Set the configs in `values` and remove those in `removed`, in one step.

    Raises KafkaError if the broker rejects a change. In this case no config is changed.
    """
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [kind.AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in values.items()]
    changes += [kind.AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in removed]
    resource = kind(resource_type=_GROUP, resource_name=group_id, configs=changes)

    def attempt() -> None:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        for answer in brokers.request_once(request).responses:
            check(answer.error_code, answer.error_message)

    brokers.retry(attempt)


def groups_with_configs(brokers: Brokers) -> list[str]:
    """Return the ids of groups that have their own configs."""
    request = ListConfigResourcesRequest(resource_types=[_GROUP], min_version=_TYPES_VERSION)
    response = brokers.request(request)
    check(response.error_code)
    return sorted(found.resource_name for found in response.config_resources)


def _configs(result: Any) -> Configs:
    entries = [
        ConfigEntry(
            config.name,
            config.value,
            _source(config.config_source),
            config.is_sensitive,
            tuple((_source(synonym.source), synonym.name, synonym.value) for synonym in config.synonyms),
        )
        for config in result.configs
    ]
    return {entry.name: entry for entry in sorted(entries)}


def _source(code: int) -> ConfigSource:
    return ConfigSource(code) if code in set(ConfigSource) else ConfigSource.UNKNOWN
