"""Handles DescribeConfigs: returns the configs of share groups from the job, and all others from the upstream.

The group configs `share.*` come from the job's tables and configuration file. The broker configs `group.share.*` are
returned with the job's values. The upstream's values would apply only to the upstream's own share groups.
"""

import logging

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from sharegroup.config import Config, GroupOverrides
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_config_entries import (
    ConfigEntry,
    broker_entries,
    config_entries,
    is_job_config,
    is_upstream_config,
)
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.handlers.configs.config_rights import config_rejection
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.configs import BROKER, GROUP, UpstreamConfigs, config_result
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.log_fields import LogFields
from sharegroup.security import acl
from sharegroup.security.authorization import Authorization

logger = logging.getLogger(__name__)

DOCUMENTATION_VERSION = 3
_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = _Result.DescribeConfigsResourceResult


class DescribeConfigs:
    """The handler of DescribeConfigs. `security` raises RequestError if the caller lacks a right."""

    def __init__(self, config: Config, stored: StoredGroups, cluster: UpstreamCluster, security: Authorization) -> None:
        self._config, self._stored, self._security = config, stored, security
        self._upstream = UpstreamConfigs(cluster)

    async def __call__(self, request: Request[DescribeConfigsRequest]) -> DescribeConfigsResponse:
        """Describe each resource separately, in the order of the request."""
        body = request.body
        results: dict[int, _Result] = {}
        forwarded = []
        for place, resource in enumerate(body.resources):
            if resource.resource_type == GROUP:
                results[place] = await self._group(request, resource)
                continue
            rejection = config_rejection(self._security.authorize_describe_configs, request.caller, resource)
            if rejection is None:
                forwarded.append((place, resource))
            else:
                results[place] = config_result((resource.resource_type, resource.resource_name), [], *rejection)
        resources = [resource for _, resource in forwarded]
        upstream_results = await self._upstream.describe(request.caller.node_id, resources, body, request.version)
        for place, item in forwarded:
            found = upstream_results[item.resource_type, item.resource_name]
            results[place] = self._with_job_configs(request, item, found) if item.resource_type == BROKER else found
        return DescribeConfigsResponse(throttle_time_ms=0, results=[results[place] for place in sorted(results)])

    def _with_job_configs(
        self,
        request: Request[DescribeConfigsRequest],
        resource: DescribeConfigsRequest.DescribeConfigsResource,
        found: _Result,
    ) -> _Result:
        """Replace the configs `group.share.*` in `found` by those of the job, and return `found`.

        `found` is the upstream's result for a broker. A result with an error is returned unchanged.

        A resource without a name stands for the dynamic default configs of all brokers. The configs `group.share.*` are
        only removed from its result, because the job's configs are not dynamic.
        """
        if found.error_code:
            return found
        found.configs = [entry for entry in found.configs if not is_job_config(entry.name)]
        if resource.resource_name:
            ours = broker_entries(self._config, resource.configuration_keys)
            found.configs += [self._entry(request, entry, read_only=True) for entry in ours]
        return found

    async def _group(
        self, request: Request[DescribeConfigsRequest], resource: DescribeConfigsRequest.DescribeConfigsResource
    ) -> _Result:
        group_id, names = resource.resource_name, resource.configuration_keys
        try:
            self._security.authorize_describe_configs(request.caller, acl.Resource.GROUP, group_id)
            if not group_id:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, "The group id is empty. Specify the group whose configs to describe."
                )
            stored = (await self._stored.configs()).get(group_id, {})
        except RequestError as error:
            return config_result((GROUP, group_id), [], int(error.code), error.message)
        of_file = self._config.groups.get(group_id) or GroupOverrides()
        ours = config_entries(stored, of_file, self._config.group, names)
        entries = [self._entry(request, entry) for entry in ours]
        return config_result((GROUP, group_id), [*await self._upstream_entries(request, resource), *entries])

    async def _upstream_entries(
        self, request: Request[DescribeConfigsRequest], resource: DescribeConfigsRequest.DescribeConfigsResource
    ) -> list[_Entry]:
        """Return the group configs that the upstream stores; none if it is unavailable or older than Kafka 3.8."""
        names = resource.configuration_keys
        theirs = None if names is None else [name for name in names if is_upstream_config(name)]
        if theirs is not None and not theirs:
            return []
        upstream = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=GROUP, resource_name=resource.resource_name, configuration_keys=theirs
        )
        try:
            results = await self._upstream.describe(request.caller.node_id, [upstream], request.body, request.version)
        except UpstreamUnavailableError as error:
            logger.warning(
                "described group %(group)s without its upstream configs; the broker is not available: %(error)s",
                LogFields(group=resource.resource_name, error=error),
            )
            return []
        (result,) = results.values()
        return [entry for entry in result.configs if is_upstream_config(entry.name)]

    @staticmethod
    def _entry(request: Request[DescribeConfigsRequest], entry: ConfigEntry, read_only: bool = False) -> _Entry:
        synonym, body = _Entry.DescribeConfigsSynonym, request.body
        with_docs = request.version >= DOCUMENTATION_VERSION and body.include_documentation
        synonyms = [synonym(name=s.name, value=s.value, source=int(s.source)) for s in entry.synonyms]
        return _Entry(
            name=entry.name,
            value=entry.value,
            read_only=read_only,
            config_source=int(entry.source),
            is_sensitive=False,
            synonyms=synonyms if body.include_synonyms else [],
            config_type=int(entry.config_type),
            documentation=entry.documentation if with_docs else None,
        )
