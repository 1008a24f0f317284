"""The upstream's part of requests about configs: other resources than groups, and what is not ours of a group's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.cluster import UpstreamCluster

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

#: (error code, error message)
ConfigResult = tuple[int, str | None]
Resource = tuple[int, str]
Altering = IncrementalAlterConfigsRequest | AlterConfigsRequest
_Result = DescribeConfigsResponse.DescribeConfigsResult


class Named(Protocol):
    """The part of a request or response that names a resource."""

    resource_type: int
    resource_name: str


class UpstreamConfigs:
    """Methods raise UpstreamUnavailableError."""

    def __init__(self, cluster: UpstreamCluster) -> None:
        self._cluster = cluster

    async def describe(
        self,
        node_id: int,
        resources: Sequence[DescribeConfigsRequest.DescribeConfigsResource],
        request: DescribeConfigsRequest,
        version: int,
    ) -> dict[Resource, _Result]:
        """{(type, name): DescribeConfigsResult}, with what the client's `request` of `version` asks for."""
        if not resources:
            return {}
        if not await self._offers(node_id, DescribeConfigsRequest):
            return {resource_of(item): described(resource_of(item), [], *_unsupported()) for item in resources}
        asked = DescribeConfigsRequest(resources=list(resources), include_synonyms=request.include_synonyms)
        if version >= 3:
            asked.include_documentation = request.include_documentation
        answer = await self._cluster.ask(node_id, asked, DescribeConfigsResponse)
        return {resource_of(result): result for result in answer.results}

    async def alter(
        self,
        node_id: int,
        resources: Sequence[IncrementalAlterConfigsRequest.AlterConfigsResource],
        validate_only: bool,
    ) -> dict[Resource, ConfigResult]:
        """{(type, name): (error code, message)}; with `validate_only` nothing is altered."""
        asked = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return await self._alter(node_id, asked, IncrementalAlterConfigsResponse)

    async def replace(
        self, node_id: int, resources: Sequence[AlterConfigsRequest.AlterConfigsResource], validate_only: bool
    ) -> dict[Resource, ConfigResult]:
        """Alter resources so that they have these configs and no others; the result is that of `alter`."""
        asked = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return await self._alter(node_id, asked, AlterConfigsResponse)

    async def _alter(
        self, node_id: int, asked: Altering, response: type[IncrementalAlterConfigsResponse | AlterConfigsResponse]
    ) -> dict[Resource, ConfigResult]:
        if not asked.resources:
            return {}
        if not await self._offers(node_id, type(asked)):
            return {resource_of(item): _unsupported() for item in asked.resources}
        return results_of(await self._cluster.ask(node_id, asked, response))

    async def list_resources(self, node_id: int, types: Sequence[int]) -> tuple[int, list[Resource]]:
        """(error code, resources) of these types; all types when there are none. Old brokers list what they know."""
        request = ListConfigResourcesRequest
        ranges = (await self._cluster.features(node_id)).ranges
        if request.API_KEY not in ranges:
            return 0, []
        version = ranges[request.API_KEY][1]
        if version < 1 and types and CLIENT_METRICS not in types:
            return 0, []
        asked = request(resource_types=list(types)) if version >= 1 else request()
        answer = await self._cluster.ask(node_id, asked, ListConfigResourcesResponse)
        if version < 1:
            return answer.error_code, [(CLIENT_METRICS, found.resource_name) for found in answer.config_resources]
        return answer.error_code, [resource_of(found) for found in answer.config_resources]

    async def _offers(self, node_id: int, request: type[ApiMessage]) -> bool:
        return request.API_KEY in (await self._cluster.features(node_id)).ranges


def described(
    resource: Resource, entries: list[_Result.DescribeConfigsResourceResult], code: int = 0, message: str | None = None
) -> _Result:
    """The configs of a resource as a DescribeConfigs response has them."""
    kind, name = resource
    return _Result(error_code=code, error_message=message, resource_type=kind, resource_name=name, configs=entries)


def resource_of(item: Named) -> Resource:
    """What part of a request or response about configs is about."""
    return item.resource_type, item.resource_name


def results_of(response: IncrementalAlterConfigsResponse | AlterConfigsResponse) -> dict[Resource, ConfigResult]:
    """{(type, name): (error code, message)}"""
    return {resource_of(found): (found.error_code, found.error_message) for found in response.responses}


def _unsupported() -> tuple[int, str]:
    return int(ErrorCode.UNSUPPORTED_VERSION), "The upstream broker has no such API."
