"""Handles Metadata, FindCoordinator and DescribeCluster: returns upstream responses with the addresses of gateways.

The upstream brokers check the rights of the gateway, not those of the caller. The handlers therefore remove everything
that the caller must not see.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.fleet.client_view import ClientView
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.coordinators import MANY_KEYS_VERSION, Coordinator, find_coordinators
from sharegroup.gateway.upstream.first_available_broker import request_any_broker
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security.acl import Operation, Resource
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller

_Topic = MetadataResponse.MetadataResponseTopic
_MetadataBroker = MetadataResponse.MetadataResponseBroker
_Broker = DescribeClusterResponse.DescribeClusterBroker

SHARE_COORDINATOR = 2
_RESOURCES = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID, SHARE_COORDINATOR: Resource.CLUSTER}
#: Host and port in responses for a broker that clients cannot reach.
_NOWHERE = "", -1
_TRY_AGAIN = "the client may have moved here from another gateway; retry the request"
#: Maximum number of connection ids in `ClusterApis._moved`. If there are more, the oldest one is removed.
_MAX_MOVED = 100_000
#: The first version of Metadata with topic ids in the request.
IDS_IN_METADATA_REQUEST = 12
#: The first version of DescribeCluster with an endpoint type, and the first one that can include fenced brokers.
ENDPOINT_TYPES_VERSION, FENCED_BROKERS_VERSION = 1, 2


class ClusterApis:
    """Handles FindCoordinator and DescribeCluster, and the Metadata requests that `Metadata` passes on.

    `Metadata` passes on the requests that it cannot answer from cached metadata.

    `open_ports` opens a gateway port for each broker that has none. `view_of` returns the broker addresses that a
    client receives (`Fleet.view_for`). If `view_of` is None, there is only one gateway, and all clients receive the
    addresses of `listeners`.
    """

    def __init__(
        self,
        cluster: UpstreamCluster,
        listeners: Listeners,
        open_ports: Callable[[], Awaitable[None]],
        security: Authorization,
        view_of: Callable[[Caller], Awaitable[ClientView]] | None = None,
    ) -> None:
        self._cluster, self._listeners, self._open_ports, self._security = cluster, listeners, open_ports, security
        self._view_of = view_of or self._single_view
        #: The ids of connections whose clients may have moved here from another gateway, oldest first. Each of them has
        #: already received COORDINATOR_NOT_AVAILABLE once.
        self._moved: dict[int, None] = {}

    async def metadata(self, request: Request[MetadataRequest]) -> MetadataResponse:
        """Request the metadata from an upstream broker, and return it with the addresses of gateways.

        Topics that the caller may not see are removed, or replaced by an error if the request names them.
        """
        send = partial(self._upstream_metadata, request)
        response, unknown = await request_any_broker(self._cluster, request.caller.node_id, send)
        for topic in response.topics:
            if topic.name and not topic.error_code:
                topic.topic_id = self._cluster.topic_id(topic.name, topic.topic_id)
        return await self.build_metadata(request, response, [*self.visible_topics(request, response.topics), *unknown])

    async def build_metadata(
        self, request: Request[MetadataRequest], response: MetadataResponse, topics: list[_Topic]
    ) -> MetadataResponse:
        """Return a response with `topics`, and with the brokers of `response` at the addresses of gateways.

        If a broker has no port at this gateway yet, open one first. Brokers without an address for the client are left
        out. The standby port that the client receives, if any, is added as one more broker.
        """
        if self._listeners.without_port(broker.node_id for broker in response.brokers):
            await self._cluster.refresh()
            await self._open_ports()
        view = await self._view_of(request.caller)
        brokers = [
            _MetadataBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
            for broker in response.brokers
            if broker.node_id in view.brokers
            for host, port in (view.brokers[broker.node_id],)
        ]
        if view.standby is not None:
            node_id, (host, port) = view.standby
            brokers.append(_MetadataBroker(node_id=node_id, host=host, port=port, rack=None))
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            topics=topics,
        )

    async def _upstream_metadata(
        self, request: Request[MetadataRequest], node_id: int
    ) -> tuple[MetadataResponse, list[_Topic]]:
        """Request metadata from a broker. Return (its response, the error entries of `_upstream_request`)."""
        body, unknown = await self._upstream_request(request, node_id)
        return await self._cluster.ask(node_id, body, MetadataResponse, request.version), unknown

    async def _upstream_request(
        self, request: Request[MetadataRequest], node_id: int
    ) -> tuple[MetadataRequest, list[_Topic]]:
        """Return (the request for the broker, an error entry for each topic that was left out of this request).

        If the broker does not support topic ids in requests, the gateway replaces topic ids with names. It leaves out a
        topic id whose name it does not know. Missing topics are created only if the client requests this and may create
        all topics that it names.
        """
        body = request.body
        names = body.topics
        unknown: list[_Topic] = []
        _, upstream_version = (await self._cluster.features(node_id)).ranges[MetadataRequest.API_KEY]
        if names and upstream_version < IDS_IN_METADATA_REQUEST:
            requested, names = names, []
            for topic in requested:
                if topic.name is None:
                    known = self._cluster.topic_by_id(topic.topic_id)
                    if known is None:
                        unknown.append(_no_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id))
                        continue
                    topic = MetadataRequest.MetadataRequestTopic(name=known.name)
                names.append(topic)
        if not names and request.version == 0:
            names = None  # an empty list requests all topics in version 0
        may_create = body.allow_auto_topic_creation and all(
            self._security.may_create(request.caller, topic.name) for topic in names or () if topic.name
        )
        upstream_body = MetadataRequest(topics=names, allow_auto_topic_creation=may_create)
        if request.version >= 8:
            upstream_body.include_topic_authorized_operations = body.include_topic_authorized_operations
        return upstream_body, unknown

    def visible_topics(self, request: Request[MetadataRequest], topics: list[_Topic]) -> Iterator[_Topic]:
        """Yield the topics that the caller may see.

        If the request contains the name or id of a topic that the caller may not see, yield an error for this topic.
        Leave out all other topics that the caller may not see. Authorized operations in `topics` are replaced by those
        of the caller.
        """
        may_see = partial(self._security.may_see, request.caller)
        requested = {topic.name for topic in request.body.topics or () if topic.name}
        for topic in topics:
            if topic.name is None or may_see(topic.name):
                if (
                    topic.name
                    and topic.authorized_operations is not None
                    and self._security.has_own_rights(request.caller)
                ):
                    topic.authorized_operations = self._security.operations(request.caller, Resource.TOPIC, topic.name)
                yield topic
            elif topic.name in requested:
                self._security.report_denied(request.caller, Operation.DESCRIBE, Resource.TOPIC, topic.name)
                yield _no_topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name, NO_TOPIC_ID)
            elif request.body.topics:  # requested by id: do not reveal the name
                yield _no_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id)

    async def find_coordinator(self, request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
        """Return the upstream's coordinators with the addresses of gateways.

        The share coordinator (key type 2) is the node that received the request.

        A client that may have moved here from another gateway first receives COORDINATOR_NOT_AVAILABLE, once on each
        connection. librdkafka ignores a new address of its coordinator while the node id is the same, so it would still
        send heartbeats to the previous gateway. After the error, librdkafka uses the address in the next response.
        """
        body = request.body
        keys = list(body.coordinator_keys) if request.version >= MANY_KEYS_VERSION else [body.key]
        view = await self._view_of(request.caller)
        if view.may_have_moved and self._is_first_question(request.caller):
            found = dict.fromkeys(keys, Coordinator(-1, int(ErrorCode.COORDINATOR_NOT_AVAILABLE), _TRY_AGAIN))
        else:
            found = await self._find(request, dict.fromkeys(keys))
            view = await self._view_of(request.caller)  # a port may have been opened
        if request.version >= MANY_KEYS_VERSION:
            coordinators = [_coordinator(key, found[key], view) for key in keys]
            return FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators)
        only = _coordinator(body.key, found[body.key], view)
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )

    def _is_first_question(self, caller: Caller) -> bool:
        is_first = caller.connection_id not in self._moved
        self._moved[caller.connection_id] = None
        if len(self._moved) > _MAX_MOVED:
            del self._moved[next(iter(self._moved))]
        return is_first

    async def _find(self, request: Request[FindCoordinatorRequest], keys: Iterable[str]) -> dict[str, Coordinator]:
        """Return {key: coordinator}, with an error for each key that the caller may not request."""
        found: dict[str, Coordinator] = {}
        for key in keys:
            try:
                self._authorize_find(request, key)
            except RequestError as error:
                found[key] = Coordinator(-1, int(error.code), error.message)
        key_type, allowed = request.body.key_type, [key for key in keys if key not in found]
        if key_type == SHARE_COORDINATOR:
            return found | dict.fromkeys(allowed, Coordinator(request.caller.node_id))
        if not allowed:
            return found
        send = partial(find_coordinators, self._cluster, keys=allowed, key_type=key_type)
        found |= await request_any_broker(self._cluster, request.caller.node_id, send)
        if self._listeners.without_port(each.node_id for each in found.values() if not each.error_code):
            await self._open_ports()
        return found

    def _authorize_find(self, request: Request[FindCoordinatorRequest], key: str) -> None:
        resource = _RESOURCES.get(request.body.key_type)
        if resource is not None:  # else the brokers reject the type
            self._security.authorize_find_coordinator(request.caller, resource, key)

    async def describe_cluster(self, request: Request[DescribeClusterRequest]) -> DescribeClusterResponse:
        """Return the brokers with the addresses of gateways. Standby ports of other gateways are not included.

        Controllers (endpoint type 2) are omitted, because they have no ports at the gateway. A fenced broker that was
        never active has no port either, but is returned with port -1 if the client requests fenced brokers.
        """
        response = await self._describe(request)
        view = await self._view_of(request.caller)
        brokers = [broker for broker in response.brokers if _set_address(broker, view) or broker.is_fenced]
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=response.error_code,
            error_message=response.error_message,
            endpoint_type=getattr(response, "endpoint_type", 1),
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=brokers,
            authorized_operations=self._operations(request, response.authorized_operations),
        )

    async def _single_view(self, caller: Caller) -> ClientView:
        return ClientView(self._listeners.addresses)

    def _operations(self, request: Request[DescribeClusterRequest], of_gateway: set[int]) -> set[int]:
        """Return the operations that the caller may perform on the cluster.

        `of_gateway` are the operations in the upstream's response, which apply to the gateway itself. They are returned
        unchanged if the caller has the gateway's rights, or requests no operations. If the caller may not describe the
        cluster, no operations are returned.
        """
        if not request.body.include_cluster_authorized_operations or not self._security.has_own_rights(request.caller):
            return of_gateway
        is_seen = self._security.would_allow(request.caller, Operation.DESCRIBE, Resource.CLUSTER)
        return self._security.operations(request.caller, Resource.CLUSTER) if is_seen else set()

    async def _describe(self, request: Request[DescribeClusterRequest]) -> DescribeClusterResponse:
        body = request.body
        upstream_body = DescribeClusterRequest(
            include_cluster_authorized_operations=body.include_cluster_authorized_operations,
            endpoint_type=body.endpoint_type if request.version >= ENDPOINT_TYPES_VERSION else 1,
            include_fenced_brokers=request.version >= FENCED_BROKERS_VERSION and body.include_fenced_brokers,
        )
        return await request_any_broker(
            self._cluster,
            request.caller.node_id,
            lambda node_id: self._cluster.ask(node_id, upstream_body, DescribeClusterResponse, request.version),
        )


def _set_address(broker: _Broker, view: ClientView) -> bool:
    """Set the host and port of `broker` to those at which the client reaches it. Return whether it can be reached.

    If it cannot be reached, the host is empty and the port is -1.
    """
    broker.host, broker.port = view.brokers.get(broker.broker_id, _NOWHERE)
    return broker.broker_id in view.brokers


def _coordinator(key: str, found: Coordinator, view: ClientView) -> FindCoordinatorResponse.Coordinator:
    """Return the response's entry for a coordinator: its address at a gateway, or an error.

    If no gateway has an address for the coordinator, the error is COORDINATOR_NOT_AVAILABLE.
    """
    is_known = not found.error_code and found.node_id in view.brokers
    host, port = view.brokers[found.node_id] if is_known else _NOWHERE
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=found.node_id if is_known else -1,
        host=host,
        port=port,
        error_code=0 if is_known else found.error_code or int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        error_message=found.error_message,
    )


def _no_topic(code: ErrorCode, name: str | None, topic_id: uuid.UUID | None) -> _Topic:
    return _Topic(error_code=int(code), name=name, topic_id=topic_id or NO_TOPIC_ID, partitions=[])
