"""Config requests to the upstream brokers, for the configs that the brokers store."""

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


class NamedResource(Protocol):
    """An item of a request or response that identifies a resource by type and name."""

    resource_type: int
    resource_name: str


class UpstreamConfigs:
    """The configs that the upstream brokers store.

    Each method sends a request to broker `node_id`. It raises UpstreamUnavailableError if this broker does not respond.
    """

    def __init__(self, cluster: UpstreamCluster) -> None:
        self._cluster = cluster

    async def describe(
        self,
        node_id: int,
        resources: Sequence[DescribeConfigsRequest.DescribeConfigsResource],
        request: DescribeConfigsRequest,
        version: int,
    ) -> dict[Resource, _Result]:
        """Describe the configs of resources. Return {(type, name) of the resource: DescribeConfigsResult}.

        `request` is the client's request, in version `version`. It determines whether synonyms and documentation are
        included.
        """
        if not resources:
            return {}
        if not await self._offers(node_id, DescribeConfigsRequest):
            return {resource_of(item): config_result(resource_of(item), [], *_unsupported()) for item in resources}
        message = DescribeConfigsRequest(resources=list(resources), include_synonyms=request.include_synonyms)
        if version >= 3:
            message.include_documentation = request.include_documentation
        answer = await self._cluster.ask(node_id, message, DescribeConfigsResponse)
        return {resource_of(result): result for result in answer.results}

    async def alter(
        self,
        node_id: int,
        resources: Sequence[IncrementalAlterConfigsRequest.AlterConfigsResource],
        validate_only: bool,
    ) -> dict[Resource, ConfigResult]:
        """Alter configs of resources. Return {(type, name) of the resource: (error code, error message)}.

        If `validate_only` is True, the changes are validated but not applied.
        """
        message = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return await self._alter(node_id, message, IncrementalAlterConfigsResponse)

    async def replace(
        self, node_id: int, resources: Sequence[AlterConfigsRequest.AlterConfigsResource], validate_only: bool
    ) -> dict[Resource, ConfigResult]:
        """Set the given configs of each resource, and reset its other configs to their defaults.

        The result and `validate_only` are as in `alter`.
        """
        message = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return await self._alter(node_id, message, AlterConfigsResponse)

    async def _alter(
        self, node_id: int, message: Altering, response: type[IncrementalAlterConfigsResponse | AlterConfigsResponse]
    ) -> dict[Resource, ConfigResult]:
        if not message.resources:
            return {}
        if not await self._offers(node_id, type(message)):
            return {resource_of(item): _unsupported() for item in message.resources}
        return results_of(await self._cluster.ask(node_id, message, response))

    async def list_resources(self, node_id: int, types: Sequence[int]) -> tuple[int, list[Resource]]:
        """Return (error code, resources whose type is in `types`). If `types` is empty, all types are included.

        From brokers without KIP-1142, the result contains only client metrics resources, or nothing.
        """
        request = ListConfigResourcesRequest
        ranges = (await self._cluster.features(node_id)).ranges
        if request.API_KEY not in ranges:
            return 0, []
        version = ranges[request.API_KEY][1]
        if version < 1 and types and CLIENT_METRICS not in types:
            return 0, []
        message = request(resource_types=list(types)) if version >= 1 else request()
        answer = await self._cluster.ask(node_id, message, ListConfigResourcesResponse)
        if version < 1:
            return answer.error_code, [(CLIENT_METRICS, found.resource_name) for found in answer.config_resources]
        return answer.error_code, [resource_of(found) for found in answer.config_resources]

    async def _offers(self, node_id: int, request: type[ApiMessage]) -> bool:
        return request.API_KEY in (await self._cluster.features(node_id)).ranges


def config_result(
    resource: Resource, entries: list[_Result.DescribeConfigsResourceResult], code: int = 0, message: str | None = None
) -> _Result:
    """Return the result for one resource in a DescribeConfigs response: its configs `entries`, or an error."""
    kind, name = resource
    return _Result(error_code=code, error_message=message, resource_type=kind, resource_name=name, configs=entries)


def resource_of(item: NamedResource) -> Resource:
    """Return the (type, name) of a resource in a request or response."""
    return item.resource_type, item.resource_name


def results_of(response: IncrementalAlterConfigsResponse | AlterConfigsResponse) -> dict[Resource, ConfigResult]:
    """Return {(type, name) of a resource: (error code, error message)} from a response."""
    return {resource_of(found): (found.error_code, found.error_message) for found in response.responses}


def _unsupported() -> tuple[int, str]:
    return int(ErrorCode.UNSUPPORTED_VERSION), "The upstream broker does not support this API."
