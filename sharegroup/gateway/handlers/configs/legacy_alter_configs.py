"""Handles AlterConfigs, the predecessor of IncrementalAlterConfigs (KIP-339).

AlterConfigs replaces all configs of a resource: configs that the request does not contain are reset to their defaults.
For groups, the gateway converts the request to an equivalent IncrementalAlterConfigs. It forwards other resources to
the upstream broker unchanged. It rejects broker configs that only the job's configuration file can set.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from sharegroup.errors import RequestError
from sharegroup.gateway.groups.group_config_entries import Source, is_upstream_config
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.handlers.configs.alter_configs import (
    DELETE,
    SET,
    IncrementalAlterConfigs,
    alter_response,
    audit_changes,
)
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.configs import GROUP, ConfigResult, Resource, UpstreamConfigs, resource_of, results_of
from sharegroup.gateway.wire.request import Request

_Resource = AlterConfigsRequest.AlterConfigsResource
_Incremental = IncrementalAlterConfigsRequest.AlterConfigsResource


class AlterConfigs:
    """The handler of AlterConfigs.

    `incremental` alters the configs of groups, and decides which of the other resources are rejected.
    """

    def __init__(self, incremental: IncrementalAlterConfigs, stored: StoredGroups, cluster: UpstreamCluster) -> None:
        self._incremental, self._stored = incremental, stored
        self._upstream = UpstreamConfigs(cluster)

    async def __call__(self, request: Request[AlterConfigsRequest]) -> AlterConfigsResponse:
        """Alter each resource separately. Either all configs of a resource are applied or none.

        For groups, there is one exception: if the upstream fails after it has validated its configs, only the configs
        that the job stores are applied.
        """
        body = request.body
        forwarded, outcomes = self._incremental.split_forwarded(request.caller, body.resources)
        outcomes |= await self._upstream.replace(request.caller.node_id, forwarded, body.validate_only)
        if not body.validate_only:
            audit_changes(request.caller, [item for item in body.resources if item.resource_type != GROUP], outcomes)
        outcomes |= await self._alter_groups(request)
        return alter_response(AlterConfigsResponse, outcomes)

    async def _alter_groups(self, request: Request[AlterConfigsRequest]) -> dict[Resource, ConfigResult]:
        groups = [item for item in request.body.resources if item.resource_type == GROUP]
        if not groups:
            return {}
        try:
            stored = await self._stored.configs()
        except RequestError as error:
            return {resource_of(item): (int(error.code), error.message) for item in groups}
        theirs = await self._upstreams_dynamic(request.caller.node_id, groups)
        resources = [
            _incremental(item, {*stored.get(item.resource_name, ()), *theirs.get(item.resource_name, ())})
            for item in groups
        ]
        body = IncrementalAlterConfigsRequest(resources=resources, validate_only=request.body.validate_only)
        response = await self._incremental(Request(request.header, body, request.caller))
        return results_of(response)

    async def _upstreams_dynamic(self, node_id: int, groups: Sequence[_Resource]) -> Mapping[str, list[str]]:
        """Return {group id: names of the group's configs that are set at the upstream}."""
        described = DescribeConfigsRequest.DescribeConfigsResource
        names = dict.fromkeys(item.resource_name for item in groups)
        resources = [described(resource_type=GROUP, resource_name=name, configuration_keys=None) for name in names]
        options = DescribeConfigsRequest(include_synonyms=False, include_documentation=False)
        found: Mapping[Resource, Any] = await self._upstream.describe(node_id, resources, options, 1)
        return {
            name: [
                config.name
                for config in result.configs
                if is_upstream_config(config.name) and config.config_source == Source.DYNAMIC_GROUP_CONFIG
            ]
            for (_, name), result in found.items()
        }


def _incremental(resource: _Resource, is_set: Collection[str]) -> _Incremental:
    """Return changes that set the configs in `resource`, and delete all other configs of the group.

    `is_set` contains the names of the configs that are set now.
    """
    change = _Incremental.AlterableConfig
    in_request = {config.name for config in resource.configs}
    changes = [change(name=item.name, config_operation=SET, value=item.value) for item in resource.configs]
    changes += [change(name=name, config_operation=DELETE, value=None) for name in sorted({*is_set} - in_request)]
    return _Incremental(resource_type=GROUP, resource_name=resource.resource_name, configs=changes)
