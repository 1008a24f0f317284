"""Handles ListGroups: lists the job's share groups, and all groups of the upstream except share groups.

Each port of the gateway stands for one broker. A client sends the request to every broker and merges the responses, so
each share group is listed on one port only. The standby port, which clients of another gateway receive as one more
broker, lists no groups.
"""

import hashlib
import logging
from collections.abc import Collection, Iterable
from typing import NamedTuple, Self

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.log_fields import LogFields
from sharegroup.security.authorization import Authorization

logger = logging.getLogger(__name__)

SHARE, CLASSIC = "share", "classic"
STATES_VERSION, TYPES_VERSION = 4, 5

_Row = ListGroupsResponse.ListedGroup


class GroupFilter(NamedTuple):
    """The requested states and types of groups, in lower case. An empty set means all."""

    states: frozenset[str]
    types: frozenset[str]

    @classmethod
    def from_request(cls, request: Request[ListGroupsRequest]) -> Self:
        """Return the filter of a request. For old versions, whose requests have no filter, it allows all groups."""
        body = request.body
        return cls(
            frozenset(state.lower() for state in body.states_filter)
            if request.version >= STATES_VERSION
            else frozenset(),
            frozenset(kind.lower() for kind in body.types_filter) if request.version >= TYPES_VERSION else frozenset(),
        )

    def allows(self, state: str, kind: str) -> bool:
        """Return whether a group of this state and type is requested."""
        return self.allows_type(kind) and (not self.states or state.lower() in self.states)

    def allows_type(self, kind: str) -> bool:
        return not self.types or kind.lower() in self.types

    @property
    def is_only_share(self) -> bool:
        """Whether only share groups are requested, so that no group of the upstream matches."""
        return self.types == {SHARE}


class ListGroups:
    """The handler of ListGroups. `security` decides which groups the caller may see."""

    def __init__(self, stored: StoredGroups, cluster: UpstreamCluster, security: Authorization) -> None:
        self._stored, self._cluster, self._security = stored, cluster, security

    async def __call__(self, request: Request[ListGroupsRequest]) -> ListGroupsResponse:
        """Return the groups that the gateway lists on the port at which the request arrived."""
        if request.caller.is_standby:
            return _response(0, [])
        group_filter = GroupFilter.from_request(request)
        rows: list[_Row] = []
        if not group_filter.is_only_share:
            try:
                response, version = await self._upstream(request)
            except UpstreamUnavailableError:
                return _response(int(ErrorCode.COORDINATOR_NOT_AVAILABLE), [])
            if response.error_code:
                return _response(int(response.error_code), [])
            rows += upstream_rows(response.groups, version, group_filter)
        if group_filter.allows_type(SHARE):
            try:
                rows += await self._ours(request.caller.node_id, group_filter)
            except RequestError as error:
                return _response(int(error.code), [])
        return _response(0, [row for row in rows if self._security.may_see_group(request.caller, row.group_id)])

    async def _upstream(self, request: Request[ListGroupsRequest]) -> tuple[ListGroupsResponse, int]:
        """Return the upstream broker's response, and the highest version of ListGroups that the broker supports."""
        body, node_id = request.body, request.caller.node_id
        upstream_body = ListGroupsRequest()
        if request.version >= STATES_VERSION:
            upstream_body.states_filter = body.states_filter
        if request.version >= TYPES_VERSION:
            upstream_body.types_filter = [kind for kind in body.types_filter if kind.lower() != SHARE]
        _, highest = (await self._cluster.features(node_id)).ranges[ListGroupsRequest.API_KEY]
        response = await self._cluster.ask(node_id, upstream_body, ListGroupsResponse)
        return response, highest

    async def _ours(self, node_id: int, group_filter: GroupFilter) -> list[_Row]:
        listings = await self._stored.listings()
        brokers = await self._brokers(node_id) if listings else []
        return [
            _Row(group_id=group_id, protocol_type=SHARE, group_state=state, group_type=SHARE)
            for group_id, state in listings
            if group_filter.allows(state, SHARE) and listing_broker(group_id, brokers) == node_id
        ]

    async def _brokers(self, node_id: int) -> Collection[int]:
        """Return the ids of the active brokers, including `node_id`.

        If broker `node_id` does not respond, return the ids of the last known brokers instead.
        """
        try:
            response = await self._cluster.ask(node_id, MetadataRequest(topics=[]), MetadataResponse)
        except UpstreamUnavailableError as error:
            logger.warning(
                "used the last known brokers to list share groups; broker %(broker)d is not available: %(error)s",
                LogFields(broker=node_id, error=error),
            )
            return self._cluster.node_ids
        return {node_id, *(broker.node_id for broker in response.brokers)}


def listing_broker(group_id: str, node_ids: Iterable[int]) -> int:
    """Return the id of the broker on whose port a group is listed.

    The result is the same at all gateways. When brokers are added or removed, it changes for few groups.
    """
    return max(node_ids, key=lambda node_id: hashlib.sha256(f"{node_id}\0{group_id}".encode()).digest())


def upstream_rows(rows: Iterable[_Row], version: int, group_filter: GroupFilter) -> list[_Row]:
    """Return the upstream's groups that the client requests, without the upstream's own share groups.

    The groups are filtered here, because the upstream may not support filters by state and type.

    `version` is the version of the upstream's response. Before version 5, it contains only classic groups, so their
    type is set to `classic`. Before version 4, it contains no states, so the states are set to the empty string.
    """
    kept = []
    for row in rows:
        if version < TYPES_VERSION:
            row.group_type = CLASSIC
        if version < STATES_VERSION:
            row.group_state = ""
        if row.group_type.lower() != SHARE and group_filter.allows(row.group_state, row.group_type):
            kept.append(row)
    return kept


def _response(code: int, groups: list[_Row]) -> ListGroupsResponse:
    return ListGroupsResponse(throttle_time_ms=0, error_code=code, groups=groups)
