"""Authorizes requests that are forwarded to the upstream brokers, and creates the connections to forward them."""

import asyncio
import logging
import uuid
from collections import defaultdict
from dataclasses import replace

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.api_versions import offered_range
from sharegroup.gateway.passthrough.decision import PassthroughDecision, authorize_request
from sharegroup.gateway.passthrough.group_creation import get_created_group, reject_group_creation
from sharegroup.gateway.passthrough.rights import RequestRights, TopicNames
from sharegroup.gateway.passthrough.rule import Rule
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.passthrough import CREATE_PARTITIONS, DELETE_TOPICS, Passthrough
from sharegroup.gateway.wire.request_decoding import leading_strings
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import RequestHeader, UnknownVersionError
from sharegroup.kafka_clients.connections.reconnecting_connection import ConnectBackoff
from sharegroup.log_fields import LogFields
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller

logger = logging.getLogger(__name__)

#: Time (in seconds) after which all brokers should have applied a DeleteTopics or CreatePartitions. The gateway then
#: refreshes its topics a second time.
SECOND_REFRESH_S = 1.0


class PassthroughRequests:
    """Authorizes requests before they are forwarded, and creates the connections on which they are forwarded.

    Each client has its own connections. `settings` are the kafka-python settings of these connections. `groups` checks
    whether a group id belongs to a share group.
    """

    def __init__(
        self, cluster: UpstreamCluster, settings: ClientSettings, security: Authorization, groups: UpstreamGroups
    ) -> None:
        self._cluster, self._settings, self._security, self._groups = cluster, settings, security, groups
        self._names = TopicNames(self._name_of, cluster.topic_names)
        self._backoffs: defaultdict[int, ConnectBackoff] = defaultdict(ConnectBackoff)
        self._refreshing: asyncio.Task[None] | None = None

    async def admit(self, caller: Caller, header: RequestHeader, frame: memoryview) -> PassthroughDecision:
        """Authorize a request. Return the part to forward, and the changes to the broker's response.

        If no part may be forwarded, the result contains the gateway's own response instead.

        If there are no ACLs, requests that name no topics and create no group are forwarded without being decoded.

        Raises:
            RequestError: clients must not use the API, or the request is rejected but has no response (Produce with
                acks=0).
            UnknownVersionError: the API version is not offered.
            MalformedRequestError: the request cannot be decoded.
            UpstreamUnavailableError: the broker does not respond.
        """
        features = await self._cluster.features(caller.node_id)
        rule = RULES.get(header.api_key)
        if rule is None:
            problem = f"{caller.principal} sent request {header.api_key}, which clients must not send"
            raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, problem)
        low, high = offered_range(features, header.api_key)
        if not low <= header.api_version <= high:
            raise UnknownVersionError(f"version {header.api_version} of {rule.name} is not offered to clients")
        caller = replace(caller, api=rule.name)
        decision = (
            await self._apply_acl(rule, caller, header, frame) if self._needs_acl(rule) else PassthroughDecision(frame)
        )
        return await self._reject_group_creation(decision, caller, header)

    async def is_for_share_group(self, node_id: int, header: RequestHeader, frame: memoryview) -> bool:
        """Return whether a request is for a share group. The first field of the request must be the group id.

        Return False if the API version is unknown. Raises MalformedRequestError if the group id cannot be decoded.
        """
        request = RULES[header.api_key].request
        assert request is not None
        oldest, newest = request.valid_versions
        if not oldest <= header.api_version <= newest:
            return False  # it is rejected as a forwarded request
        ((group_id,), _) = leading_strings(request, header, frame, 1)
        return await self._groups.is_share_group(node_id, group_id)

    async def _reject_group_creation(
        self, decision: PassthroughDecision, caller: Caller, header: RequestHeader
    ) -> PassthroughDecision:
        """Reject a request that would create a group of another type with the name of a share group.

        For all other requests, return `decision` unchanged.
        """
        group_id = None if decision.frame is None else get_created_group(header, decision.frame)
        if group_id is None or not await self._groups.is_only_share_group(caller.node_id, group_id):
            return decision
        logger.info(
            "rejected %(api)s of %(principal)s, because group %(group)s is a share group",
            LogFields(api=caller.api, principal=caller.principal, group=group_id),
        )
        return reject_group_creation(decision, header, RequestRights(self._security, caller, self._names))

    async def _apply_acl(
        self, rule: Rule, caller: Caller, header: RequestHeader, frame: memoryview
    ) -> PassthroughDecision:
        rights = RequestRights(self._security, caller, self._names)
        decision = self._authorize(rule, header, frame, rights)
        if rights.misses_ids and await self._cluster.try_refresh():
            rights = RequestRights(self._security, caller, self._names)
            decision = self._authorize(rule, header, frame, rights)
        rights.report_denials()
        return decision

    def create_link(self, node_id: int, settings: ClientSettings | None = None) -> Passthrough:
        """Return a new connection that forwards one client's requests to a broker.

        `settings` contains the client's own login. If it is None, the connection logs in with the gateway's settings.
        """
        address, backoff = self._cluster.address(node_id), self._backoffs[node_id]
        return Passthrough(address, settings or self._settings, backoff, self._topics_changed)

    def close(self) -> None:
        """Cancel the refresh of topics, if one is running. Connections that `create_link` has returned stay open."""
        if self._refreshing is not None:
            self._refreshing.cancel()

    def _needs_acl(self, rule: Rule) -> bool:
        return self._security.has_list or (self._security.has_hidden_topics and rule.names_topics)

    @staticmethod
    def _authorize(rule: Rule, header: RequestHeader, frame: memoryview, rights: RequestRights) -> PassthroughDecision:
        try:
            return authorize_request(rule, header, frame, rights)
        except RequestError:
            rights.report_denials()
            raise

    def _name_of(self, topic_id: uuid.UUID) -> str | None:
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _topics_changed(self, api_key: int) -> None:
        """Invalidate the metadata snapshots, because a forwarded request has changed topics.

        After DeleteTopics and CreatePartitions, also start a refresh of the gateway's topics. After DeleteTopics, the
        refresh ends fetches that wait for a deleted topic. After CreatePartitions, the next heartbeats report the new
        partitions to the job.
        """
        self._cluster.snapshots.invalidate()
        if api_key not in (DELETE_TOPICS, CREATE_PARTITIONS):
            return
        self._cluster.expire_seen_topics()
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._refresh_twice())

    async def _refresh_twice(self) -> None:
        """Refresh the gateway's topics now, and again after SECOND_REFRESH_S.

        By then, all brokers should have applied the client's DeleteTopics or CreatePartitions.
        """
        await self._cluster.try_refresh()
        await asyncio.sleep(SECOND_REFRESH_S)
        await self._cluster.try_refresh()
