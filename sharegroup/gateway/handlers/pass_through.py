"""Requests that are not the gateway's: what of them clients may send, and their way to the upstream broker."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from dataclasses import replace

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.api_versions import offered_range
from sharegroup.gateway.passing.one_kind import created_group, refused
from sharegroup.gateway.passing.passage import Passage, judge
from sharegroup.gateway.passing.rights import Names, Rights
from sharegroup.gateway.passing.rule import Rule
from sharegroup.gateway.passing.rules import RULES
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.passthrough import DELETE_TOPICS, Passthrough
from sharegroup.gateway.wire.request_decoding import leading_strings
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.headers import RequestHeader, UnknownVersionError
from sharegroup.kafka_clients.connections.kept_connection import ConnectBackoff
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller

logger = logging.getLogger(__name__)

#: After a DeleteTopics: by then all brokers should know of it.
LOOK_AGAIN_S = 1.0


class PassThrough:
    """Judges the requests, and links clients to brokers. `settings` are kafka-python's, for the links. `groups` knows
    which names are share groups."""

    def __init__(
        self, cluster: UpstreamCluster, settings: ClientSettings, security: Authorization, groups: UpstreamGroups
    ) -> None:
        self._cluster, self._settings, self._security, self._groups = cluster, settings, security, groups
        self._names = Names(self._name_of, cluster.topic_names)
        self._backoffs: defaultdict[int, ConnectBackoff] = defaultdict(ConnectBackoff)
        self._looking: asyncio.Task[None] | None = None

    async def admit(self, caller: Caller, header: RequestHeader, frame: memoryview) -> Passage:
        """What of a request goes on, and what of its answer is made here.

        Without an access control list, requests that name no topics and create no group pass without being read.
        Raises RequestError for what the caller may not send and cannot be answered, UnknownVersionError for what is not
        offered (what the upstream broker does not have, and what clients are not to use of it), MalformedRequestError,
        and UpstreamUnavailableError.
        """
        features = await self._cluster.features(caller.node_id)
        rule = RULES.get(header.api_key)
        if rule is None:
            problem = f"request {header.api_key}, sent by {caller.principal}, is not one that clients may send"
            raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, problem)
        low, high = offered_range(features, header.api_key)
        if not low <= header.api_version <= high:
            raise UnknownVersionError(f"request {header.api_key} of version {header.api_version} is not offered")
        caller = replace(caller, api=rule.name)
        passage = await self._passage(rule, caller, header, frame) if self._is_judged(rule) else Passage(frame)
        return await self._of_one_kind(passage, caller, header)

    async def is_for_share_group(self, node_id: int, header: RequestHeader, frame: memoryview) -> bool:
        """Return whether a request, whose first field is a group id, is for a share group.

        Raises MalformedRequestError.
        """
        request = RULES[header.api_key].request
        assert request is not None
        oldest, newest = request.valid_versions
        if not oldest <= header.api_version <= newest:
            return False  # and refused as one that passes
        ((group_id,), _) = leading_strings(request, header, frame, 1)
        return await self._groups.is_share_group(node_id, group_id)

    async def _of_one_kind(self, passage: Passage, caller: Caller, header: RequestHeader) -> Passage:
        """Refuse a request that would create a group of another kind under the name of a share group."""
        group_id = None if passage.frame is None else created_group(header, passage.frame)
        if group_id is None or not await self._groups.is_only_share_group(caller.node_id, group_id):
            return passage
        logger.info("%s of %s is refused: %s is a share group", caller.api, caller.principal, group_id)
        return refused(passage, header, Rights(self._security, caller, self._names))

    async def _passage(self, rule: Rule, caller: Caller, header: RequestHeader, frame: memoryview) -> Passage:
        """What access control leaves of a request."""
        rights = Rights(self._security, caller, self._names)
        passage = self._judge(rule, header, frame, rights)
        if rights.misses_ids and await self._cluster.try_refresh():
            rights = Rights(self._security, caller, self._names)
            passage = self._judge(rule, header, frame, rights)
        rights.tell()
        return passage

    def link(self, node_id: int, settings: ClientSettings | None = None) -> Passthrough:
        """A link to a broker, for one client: in the gateway's name, or by the settings of the client's own."""
        address, backoff = self._cluster.address(node_id), self._backoffs[node_id]
        return Passthrough(address, settings or self._settings, backoff, self._topics_changed)

    def close(self) -> None:
        """Look no more; the links are their clients' to close."""
        if self._looking is not None:
            self._looking.cancel()

    def _is_judged(self, rule: Rule) -> bool:
        return self._security.has_list or (self._security.hides_topics and rule.names_topics)

    @staticmethod
    def _judge(rule: Rule, header: RequestHeader, frame: memoryview, rights: Rights) -> Passage:
        try:
            return judge(rule, header, frame, rights)
        except RequestError:
            rights.tell()
            raise

    def _name_of(self, topic_id: uuid.UUID) -> str | None:
        topic = self._cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _topics_changed(self, api_key: int) -> None:
        """Clients are to see it; after a DeleteTopics, fetches that wait for such a topic should end."""
        self._cluster.snapshots.forget()
        if api_key != DELETE_TOPICS:
            return
        self._cluster.doubt()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_again())

    async def _look_again(self) -> None:
        """At once, and once more when all brokers know what one has said."""
        await self._cluster.try_refresh()
        await asyncio.sleep(LOOK_AGAIN_S)
        await self._cluster.try_refresh()
