"""Handles DeleteGroups: deletes the job's share groups with request rows to the job, and other groups at the upstream.

The upstream may have share groups of its own. These are not deleted. Their error is GROUP_ID_NOT_FOUND.
"""

from collections.abc import Iterable

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.handlers.groups.list_groups import SHARE, TYPES_VERSION
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.security import audit
from sharegroup.security.authorization import Authorization


class DeleteGroups:
    """The handler of DeleteGroups. `security` raises RequestError if the caller lacks a right."""

    def __init__(
        self, requests: GroupRequests, stored: StoredGroups, cluster: UpstreamCluster, security: Authorization
    ) -> None:
        self._requests, self._stored, self._cluster, self._security = requests, stored, cluster, security

    async def __call__(self, request: Request[DeleteGroupsRequest]) -> DeleteGroupsResponse:
        """Delete each group separately. An error of one group does not affect the others."""
        group_ids = list(dict.fromkeys(request.body.groups_names))
        codes = {group_id: self._authorization_error(request, group_id) for group_id in group_ids}
        try:
            ours = {listing.group_id for listing in await self._stored.listings()}
        except RequestError as error:
            codes = {group_id: code or int(error.code) for group_id, code in codes.items()}
        else:
            allowed = [group_id for group_id, code in codes.items() if not code]
            for group_id in allowed:
                if group_id in ours:
                    codes[group_id] = await self._delete(group_id)
            codes |= await self._upstream(request.caller.node_id, [g for g in allowed if g not in ours])
        for group_id in group_ids:
            audit.log_change(request.caller, "group", group_id, codes[group_id])
        result = DeleteGroupsResponse.DeletableGroupResult
        return DeleteGroupsResponse(
            throttle_time_ms=0,
            results=[result(group_id=group_id, error_code=codes[group_id]) for group_id in group_ids],
        )

    def _authorization_error(self, request: Request[DeleteGroupsRequest], group_id: str) -> int:
        try:
            self._security.authorize_delete_group(request.caller, group_id)
        except RequestError as error:
            return int(error.code)
        return 0

    async def _delete(self, group_id: str) -> int:
        try:
            await self._requests.delete_group(group_id)
        except RequestError as error:
            return int(error.code)
        return 0

    async def _upstream(self, node_id: int, group_ids: list[str]) -> dict[str, int]:
        """Delete groups at the upstream. Return {group id: error code}."""
        if not group_ids:
            return {}
        try:
            return await self._delete_upstream(node_id, group_ids)
        except UpstreamUnavailableError:
            return dict.fromkeys(group_ids, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    async def _delete_upstream(self, node_id: int, group_ids: list[str]) -> dict[str, int]:
        hidden = await self._share_groups(node_id)
        codes = {group_id: int(ErrorCode.GROUP_ID_NOT_FOUND) for group_id in group_ids}
        others = [group_id for group_id in group_ids if group_id not in hidden]
        if others:
            response = await self._cluster.ask(node_id, DeleteGroupsRequest(groups_names=others), DeleteGroupsResponse)
            codes |= {result.group_id: result.error_code for result in response.results}
        return codes

    async def _share_groups(self, node_id: int) -> set[str]:
        """Return the ids of the broker's own share groups. Brokers that cannot list groups by type have none."""
        _, highest = (await self._cluster.features(node_id)).ranges[ListGroupsRequest.API_KEY]
        if highest < TYPES_VERSION:
            return set()
        others = ListGroupsRequest(states_filter=[], types_filter=[SHARE])
        return _ids((await self._cluster.ask(node_id, others, ListGroupsResponse)).groups)


def _ids(rows: Iterable[ListGroupsResponse.ListedGroup]) -> set[str]:
    return {row.group_id for row in rows if row.group_type.lower() == SHARE}
