"""Queries the rights of one user at the brokers, with the user's login, and caches them for a few seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

from kafka.errors import for_code
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.errors import ErrorCode, error_name
from sharegroup.gateway.client_identity.broker_rights import CLUSTER, BrokerRights, Key
from sharegroup.gateway.client_identity.required_resources import RequiredResources
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.coordinators import Coordinator, find_coordinators
from sharegroup.gateway.upstream.first_available_broker import request_any_broker
from sharegroup.gateway.upstream.node_connections import NodeConnections
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.connection import Features, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security.acl import Operation, Resource

#: How long cached rights are used before they are queried again, and how long they are used if the query fails.
FRESH_S, LAST_RESORT_S = 5.0, 60.0
#: How long a failed query is retried (for example while a coordinator moves), and the pause between attempts.
PATIENCE_S, PAUSE_S = 5.0, 0.1
#: Maximum number of resource names that are remembered per user and included in each query. They are remembered because
#: later requests of a share session do not contain its topics.
MAX_NAMES = 10_000
GROUP_KEY, TRANSACTION_KEY = 0, 1
#: The last version of DescribeGroups that returns rights on groups that do not exist (KIP-1043). Brokers that support
#: a later version also support configs of groups.
DESCRIBE_GROUPS_VERSION = 5
_ALL_TOPICS: Key = (Resource.TOPIC, "")
#: The rights on a topic that does not exist. They are not cached, because the topic may be created at any time.
_ABSENT: Collection[int] = (Operation.DESCRIBE,)


class _Known(NamedTuple):
    operations: Collection[int]
    queried_s: float


class ClientBrokers:
    """The brokers in the newest metadata, and connections to them. `settings` contains the client's login."""

    def __init__(self, cluster: UpstreamCluster, settings: ClientSettings) -> None:
        self._cluster, self._connections = cluster, NodeConnections(cluster, settings)

    @property
    def node_ids(self) -> list[int]:
        """The ids of the brokers in the newest metadata, sorted."""
        return self._cluster.node_ids

    async def ask(
        self, node_id: int, request: ApiMessage, response: type[Response], max_version: int | None = None
    ) -> Response:
        """Send a request to one broker and return its response, an instance of `response`.

        Raises UpstreamUnavailableError if the broker does not respond.
        """
        return await self._connections.get(node_id).ask(request, response, max_version)

    async def features(self, node_id: int) -> Features:
        """Return the APIs that a broker supports. Raises UpstreamUnavailableError if the broker does not respond."""
        return await self._connections.get(node_id).features()

    def close(self) -> None:
        self._connections.close()


class ClientRights:
    """The rights of one user at the brokers. They are queried when a request needs them, and are cached.

    `share_groups` returns the ids of the share groups, because the brokers cannot list them. It is called if a request
    requires rights on all groups.
    """

    def __init__(self, brokers: ClientBrokers, share_groups: Callable[[], Awaitable[Iterable[str]]]) -> None:
        self._brokers, self._share_groups = brokers, share_groups
        self._names: dict[Key, None] = {}
        #: Names from an earlier login that have not been queried with the current login yet.
        self._expected: set[Key] = set()
        self._known: dict[Key, _Known] = {}
        self._operations: dict[Key, Collection[int]] = {}
        self._has_group_configs = True
        self._query_lock = asyncio.Lock()

    @property
    def names(self) -> Collection[Key]:
        """The resources, as (type, name), that the client has named. Each query requests the rights on all of them."""
        return self._names.keys() | self._expected

    def add_names(self, names: Iterable[Key]) -> None:
        """Include the resources `names` in the next query. The client named them under its previous login.

        A share session may continue after a new login, and its later requests do not repeat its topics. Without the
        names of these topics, the client would have no rights on them.
        """
        self._expected |= {key for key in names if key not in self._names}

    async def get_rights(self, node_id: int, named: RequiredResources) -> BrokerRights:
        """Return the client's rights on `named`, the resources of a request, and on all other cached resources.

        `named.topic_ids` is ignored: `named.keys` must contain the names of these topics. If the request may create
        missing topics, the brokers create them first.

        If a right that the request needs is not cached, or is older than `FRESH_S`, the rights on these resources and
        on all earlier ones (property `names`) are queried, at broker `node_id` first. If this query fails, cached
        rights that are not older than `LAST_RESORT_S` are used instead. Raises UpstreamUnavailableError if a needed
        right is not cached or is older than that, or if the brokers do not respond when topics are created or groups
        are listed.
        """
        listed: frozenset[str] = frozenset()
        this_once: set[Key] = {_ALL_TOPICS} if named.has_all_topics else set()
        if named.has_all_groups:
            this_once |= {(Resource.GROUP, group_id) for group_id in await self._share_groups()}
            listed = await self._listed_groups(node_id)
        if named.creates:
            await self._create(node_id, named.creates)
        async with self._query_lock:
            await self._ensure_known(node_id, named.keys, this_once)
        return BrokerRights(self._operations, listed, self._has_group_configs)

    def close(self) -> None:
        self._brokers.close()

    # -- the cache ---------------------------------------------------------------------------------------------------

    async def _ensure_known(self, node_id: int, names: Collection[Key], this_once: Collection[Key]) -> None:
        named = [*self._expected, *names]
        for key in named:
            self._names.pop(key, None)
            self._names[key] = None
        while len(self._names) > MAX_NAMES:
            self._names.pop(next(iter(self._names)))
        keys = {*named, *this_once}
        if self._are_newer_than(FRESH_S, keys):
            return
        try:
            await self._query_with_retries(node_id, self._names.keys() | keys)
        except UpstreamUnavailableError:
            if not self._are_newer_than(LAST_RESORT_S, keys):
                raise
        else:
            self._expected.difference_update(named)

    def _are_newer_than(self, age_s: float, keys: Iterable[Key]) -> bool:
        since = asyncio.get_running_loop().time() - age_s
        return all(key in self._known and self._known[key].queried_s > since for key in keys)

    async def _query_with_retries(self, node_id: int, keys: Collection[Key]) -> None:
        """Query the rights on these resources, and store them in the cache.

        Retries after an UpstreamUnavailableError. Raises this error if `PATIENCE_S` seconds have passed.
        """
        loop = asyncio.get_running_loop()
        queried_s = loop.time()
        while True:
            try:
                await self._query(node_id, keys, queried_s)
            except UpstreamUnavailableError:
                if loop.time() - queried_s > PATIENCE_S:
                    raise
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def _query(self, node_id: int, keys: Collection[Key], queried_s: float) -> None:
        names: dict[Resource, list[str]] = {kind: [] for kind in Resource}
        for kind, name in keys:
            if name:
                names[kind].append(name)
        found: dict[Key, Collection[int]] = {}
        if _ALL_TOPICS in keys:
            found |= {_ALL_TOPICS: ()} | await self._topics(node_id, None)
        elif names[Resource.TOPIC]:
            found |= await self._topics(node_id, names[Resource.TOPIC])
        if names[Resource.GROUP]:
            found |= await self._groups(node_id, names[Resource.GROUP])
        if names[Resource.TRANSACTIONAL_ID]:
            found |= await self._transactions(node_id, names[Resource.TRANSACTIONAL_ID])
        if CLUSTER in keys:
            found[CLUSTER] = await self._cluster(node_id)
        self._store(dict.fromkeys(keys, ()) | found, queried_s, replaces_topics=_ALL_TOPICS in keys)

    def _store(self, found: dict[Key, Collection[int]], queried_s: float, replaces_topics: bool) -> None:
        """Store the result of a query in the cache, and remove entries that are older than `LAST_RESORT_S`.

        If `replaces_topics` is True, the query was for all topics, so all earlier entries of topics are removed.
        """
        oldest_s = queried_s - LAST_RESORT_S
        entries = {
            key: known
            for key, known in self._known.items()
            if known.queried_s > oldest_s and not (replaces_topics and key[0] is Resource.TOPIC)
        }
        for key, operations in found.items():
            entries[key] = _Known(operations, float("-inf") if operations is _ABSENT else queried_s)
        self._known = entries
        self._operations = {key: known.operations for key, known in self._known.items()}

    # -- the queries -------------------------------------------------------------------------------------------------

    async def _topics(self, node_id: int, names: Collection[str] | None) -> dict[Key, Collection[int]]:
        request = MetadataRequest(
            topics=None if names is None else _topics(names),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        ask = partial(self._brokers.ask, request=request, response=MetadataResponse)
        response = await request_any_broker(self._brokers, node_id, ask)
        found: dict[Key, Collection[int]] = {}
        for topic in response.topics:
            if not topic.name:
                continue
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                found[Resource.TOPIC, topic.name] = _ABSENT  # clients without Describe get another error
            elif _is_allowed(topic.error_code):
                found[Resource.TOPIC, topic.name] = topic.authorized_operations
        return found

    async def _groups(self, node_id: int, names: Collection[str]) -> dict[Key, Collection[int]]:
        found: dict[Key, Collection[int]] = {}
        by_coordinator: dict[int, list[str]] = {}
        for name, coordinator in (await self._coordinators(node_id, names, GROUP_KEY)).items():
            if _is_allowed(coordinator.error_code):
                by_coordinator.setdefault(coordinator.node_id, []).append(name)
        for coordinator_id, group_ids in by_coordinator.items():
            request = DescribeGroupsRequest(groups=group_ids, include_authorized_operations=True)
            response = await self._brokers.ask(coordinator_id, request, DescribeGroupsResponse, DESCRIBE_GROUPS_VERSION)
            for group in response.groups:
                if _is_allowed(group.error_code):
                    found[Resource.GROUP, group.group_id] = group.authorized_operations
            ranges = (await self._brokers.features(coordinator_id)).ranges
            self._has_group_configs = ranges[DescribeGroupsRequest.API_KEY][1] > DESCRIBE_GROUPS_VERSION
        return found

    async def _transactions(self, node_id: int, names: Collection[str]) -> dict[Key, Collection[int]]:
        """Return {(type, name): (Describe,)} for the transactional ids in `names` that the client may describe.

        Brokers do not return the rights on transactional ids. This method therefore sends FindCoordinator, for which
        the brokers require Describe.
        """
        found = await self._coordinators(node_id, names, TRANSACTION_KEY)
        return {
            (Resource.TRANSACTIONAL_ID, name): (Operation.DESCRIBE,)
            for name, coordinator in found.items()
            if coordinator.error_code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        }

    async def _coordinators(self, node_id: int, names: Collection[str], key_type: int) -> dict[str, Coordinator]:
        ask = partial(find_coordinators, self._brokers, keys=names, key_type=key_type)
        return await request_any_broker(self._brokers, node_id, ask)

    async def _cluster(self, node_id: int) -> Collection[int]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        ask = partial(self._brokers.ask, request=request, response=DescribeClusterResponse)
        response = await request_any_broker(self._brokers, node_id, ask)
        return response.authorized_operations if _is_allowed(response.error_code) else ()

    async def _listed_groups(self, node_id: int) -> frozenset[str]:
        response = await self._brokers.ask(node_id, ListGroupsRequest(), ListGroupsResponse)
        return frozenset(group.group_id for group in response.groups)

    async def _create(self, node_id: int, names: Collection[str]) -> None:
        """Request metadata of topics, so that the brokers create the missing ones if the client is allowed to."""
        request = MetadataRequest(topics=_topics(names), allow_auto_topic_creation=True)
        await self._brokers.ask(node_id, request, MetadataResponse)


def _topics(names: Iterable[str]) -> list[MetadataRequest.MetadataRequestTopic]:
    return [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(names)]


def _is_allowed(code: int) -> bool:
    """Return whether a response's error code is 0. Raises UpstreamUnavailableError if the error is retriable."""
    if code and for_code(code).retriable:
        raise UpstreamUnavailableError(f"a broker could not return the rights of a client: {error_name(code)}")
    return not code
