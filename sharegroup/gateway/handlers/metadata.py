"""Handles Metadata. To save work, the metadata comes from a cached snapshot of the upstream's response if possible.

    the request is for              the metadata comes from
    all topics, or large metadata   the snapshot, which is first refreshed if it is not fresh
    few topics, by name or id       the snapshot if it is fresh, or a first one if none exists; otherwise the upstream
    topics not in the snapshot      the upstream, which may create them
    authorized operations           the upstream, because snapshots do not contain them
    a version that brokers lack     the upstream; the gateway converts the response
    topic ids that brokers lack     the upstream; the gateway adds the topic ids to the response

Topics that the caller may not see are removed, or replaced by an error if the request names them.

The brokers in each response depend on the client (`ClusterApis.build_metadata`).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.gateway.wire.metadata_bytes import JoinedMetadata, MetadataBytes, TopicPiece, encode_topics
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.headers import AnyResponse
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security.authorization import Authorization

#: If the snapshot is not fresh, metadata of up to this size (in bytes) is requested from the upstream. For larger
#: metadata, the snapshot is refreshed instead.
LARGE_BYTES = 16_384
#: The first version of the Metadata response with topic ids.
TOPIC_IDS_VERSION = 10
#: For more topics than this, checking which ones a caller may see takes milliseconds, so it is done on a thread.
MANY_TOPICS = 1_000

_RequestTopic = MetadataRequest.MetadataRequestTopic


class Metadata:
    """The handler of Metadata. It uses a snapshot of the metadata if possible, otherwise `ClusterApis.metadata`."""

    def __init__(self, cluster_apis: ClusterApis, snapshots: MetadataSnapshots, security: Authorization) -> None:
        self._cluster_apis, self._snapshots, self._security = cluster_apis, snapshots, security

    async def __call__(self, request: Request[MetadataRequest]) -> AnyResponse:
        """Return the metadata in the version of the request, from a snapshot or from the upstream."""
        snapshot = await self._snapshot(request)
        if snapshot is None:
            return await self._cluster_apis.metadata(request)
        requested = None if _requests_all(request) else list(request.body.topics or ())
        found = list(snapshot.topics.values()) if requested is None else _found(snapshot, requested)
        pieces = await self._visible(request, found)
        if requested is not None and (missing := [topic for topic in requested if _piece(snapshot, topic) is None]):
            pieces += encode_topics(await self._request(request, missing), request.version)
        response = await self._cluster_apis.build_metadata(request, snapshot.without_topics, [])
        return JoinedMetadata(response, request.version, [piece.data for piece in pieces])

    async def _snapshot(self, request: Request[MetadataRequest]) -> MetadataBytes | None:
        """Return a fresh snapshot for the response. Request it first if necessary.

        Return None if the metadata must be requested from the upstream (see the table at the top of this module).
        """
        body, version = request.body, request.version
        if _requests_operations(request) or not (_requests_all(request) or body.topics):
            return None
        if not _requests_all(request) and not self._snapshots.is_fresh(version):
            newest = self._snapshots.get_newest(version)
            if newest is not None and _size(_found(newest, body.topics or ())) <= LARGE_BYTES:
                return None
        snapshot = await self._snapshots.get_fresh(version)
        is_whole = snapshot.has_ids or version < TOPIC_IDS_VERSION
        return snapshot if snapshot.version == version and is_whole else None

    async def _visible(self, request: Request[MetadataRequest], found: list[TopicPiece]) -> list[TopicPiece]:
        """Return the topics in `found` that the caller may see.

        If the request names a topic that the caller may not see, the result contains an error for this topic.
        """
        if len(found) > MANY_TOPICS:
            return await asyncio.to_thread(self._filter, request, found)
        return self._filter(request, found)

    def _filter(self, request: Request[MetadataRequest], found: list[TopicPiece]) -> list[TopicPiece]:
        caller, may_see = request.caller, self._security.may_see
        visible = [piece for piece in found if may_see(caller, piece.name)]
        if len(visible) == len(found) or _requests_all(request):
            return visible
        names = {piece.name for piece in visible}
        hidden = [_name_and_id(piece) for piece in found if piece.name not in names]
        return visible + encode_topics(self._cluster_apis.visible_topics(request, hidden), request.version)

    async def _request(
        self, request: Request[MetadataRequest], topics: list[_RequestTopic]
    ) -> Iterable[MetadataResponse.MetadataResponseTopic]:
        """Request `topics` from the upstream, and return their metadata."""
        may_create = request.body.allow_auto_topic_creation
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
        body.API_VERSION = request.version
        response = await self._cluster_apis.metadata(replace(request, body=body))
        return list(response.topics)


def _requests_all(request: Request[MetadataRequest]) -> bool:
    """Return whether all topics are requested. The list of topics is then null or, in version 0, empty."""
    topics = request.body.topics
    return topics is None or (request.version == 0 and not topics)


def _requests_operations(request: Request[MetadataRequest]) -> bool:
    body = request.body
    return request.version >= 8 and bool(
        body.include_topic_authorized_operations or body.include_cluster_authorized_operations
    )


def _piece(snapshot: MetadataBytes, topic: _RequestTopic) -> TopicPiece | None:
    """Return the snapshot's entry for a requested topic; None if there is none.

    If the request contains no name for the topic, the entry is found by the topic id.
    """
    return snapshot.by_id.get(topic.topic_id) if topic.name is None else snapshot.topics.get(topic.name)


def _found(snapshot: MetadataBytes, requested: Iterable[_RequestTopic]) -> list[TopicPiece]:
    """Return the requested topics that the snapshot contains, without duplicates."""
    found = {piece.name: piece for topic in requested if (piece := _piece(snapshot, topic)) is not None}
    return list(found.values())


def _size(pieces: Iterable[TopicPiece]) -> int:
    return sum(len(piece.data) for piece in pieces)


def _name_and_id(piece: TopicPiece) -> MetadataResponse.MetadataResponseTopic:
    """Return a topic with its name and id only."""
    return MetadataResponse.MetadataResponseTopic(
        error_code=0, name=piece.name, topic_id=piece.topic_id or NO_TOPIC_ID, partitions=[]
    )
