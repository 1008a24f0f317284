"""Handles ListConfigResources (KIP-1142): returns groups with configs in the job's tables, and upstream resources."""

from collections.abc import Iterable

from kafka.protocol.admin import ListConfigResourcesRequest, ListConfigResourcesResponse

from sharegroup.errors import RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.configs import CLIENT_METRICS, GROUP, TOPIC, Resource, UpstreamConfigs
from sharegroup.gateway.wire.request import Request
from sharegroup.security.authorization import Authorization


class ListConfigResources:
    """The handler of ListConfigResources. In version 0, it returns only resources of the type client metrics."""

    def __init__(self, stored: StoredGroups, cluster: UpstreamCluster, security: Authorization) -> None:
        self._stored, self._security = stored, security
        self._upstream = UpstreamConfigs(cluster)

    async def __call__(self, request: Request[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
        """Return all resources of the requested types; of all types if the request contains no types."""
        types = list(request.body.resource_types) if request.version >= 1 else [CLIENT_METRICS]
        try:
            self._security.authorize_list_config_resources(request.caller)
            ours = set(await self._stored.configs()) if not types or GROUP in types else set()
        except RequestError as error:
            return _response(int(error.code), ())
        code, theirs = await self._upstream.list_resources(request.caller.node_id, types)
        if code and ours:
            code = 0  # the upstream may not support the type; the job's groups are returned anyway
        theirs = [(kind, name) for kind, name in theirs if kind != TOPIC or self._security.is_shown(name)]
        return _response(code, sorted({*theirs, *((GROUP, group_id) for group_id in ours)}))


def _response(code: int, resources: Iterable[Resource]) -> ListConfigResourcesResponse:
    found = ListConfigResourcesResponse.ConfigResource
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=code,
        config_resources=[found(resource_name=name, resource_type=kind) for kind, name in resources],
    )
