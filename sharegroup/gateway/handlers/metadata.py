"""Metadata: from a snapshot of the upstream's response where possible, which costs no more than sending it.

    all topics, or large ones       from a fresh snapshot, without topics that the caller may not see
    topics by name or id            from a snapshot that is fresh; otherwise requested from the upstream
    topics missing in the snapshot  requested from the upstream, which may create them
    authorized operations           requested from the upstream; snapshots do not have them
    brokers older than the client   requested from the upstream and converted; topic ids are added if they have none

Each response has its own brokers part (`ClusterApis.with_our_brokers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.gateway.wire.metadata_bytes import JoinedMetadata, MetadataBytes, TopicPiece, pieces_of
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.headers import AnyResponse
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security.authorization import Authorization

#: Smaller metadata is requested from the upstream, which takes no longer than refreshing a snapshot.
LARGE_BYTES = 16_384
#: The first version of the response with topic ids.
TOPIC_IDS_VERSION = 10
#: For more topics, checking what a caller may see takes milliseconds and is done on a thread.
MANY_TOPICS = 1_000

_Asked = MetadataRequest.MetadataRequestTopic


class Metadata:
    """The handler of Metadata."""

    def __init__(self, cluster_apis: ClusterApis, snapshots: MetadataSnapshots, security: Authorization) -> None:
        self._cluster_apis, self._snapshots, self._security = cluster_apis, snapshots, security

    async def __call__(self, request: Request[MetadataRequest]) -> AnyResponse:
        """Return the response in the client's version."""
        snapshot = await self._snapshot(request)
        if snapshot is None:
            return await self._cluster_apis.metadata(request)
        asked = None if _asks_for_all(request) else list(request.body.topics or ())
        found = list(snapshot.topics.values()) if asked is None else _found(snapshot, asked)
        pieces = await self._visible(request, found)
        if asked is not None and (missing := [topic for topic in asked if _piece(snapshot, topic) is None]):
            pieces += pieces_of(await self._asked_for(request, missing), request.version)
        response = await self._cluster_apis.with_our_brokers(request, snapshot.without_topics, [])
        return JoinedMetadata(response, request.version, [piece.data for piece in pieces])

    async def _snapshot(self, request: Request[MetadataRequest]) -> MetadataBytes | None:
        """Return the snapshot for the response; None if the upstream must be requested."""
        body, version = request.body, request.version
        if _asks_for_operations(request) or not (_asks_for_all(request) or body.topics):
            return None
        if not _asks_for_all(request) and not self._snapshots.is_fresh(version):
            newest = self._snapshots.newest(version)
            if newest is not None and _bytes_of(_found(newest, body.topics or ())) <= LARGE_BYTES:
                return None
        snapshot = await self._snapshots.fresh(version)
        is_whole = snapshot.has_ids or version < TOPIC_IDS_VERSION
        return snapshot if snapshot.version == version and is_whole else None

    async def _visible(self, request: Request[MetadataRequest], found: list[TopicPiece]) -> list[TopicPiece]:
        """Return the topics that the caller may see, and errors for the other requested ones."""
        if len(found) > MANY_TOPICS:
            return await asyncio.to_thread(self._seen, request, found)
        return self._seen(request, found)

    def _seen(self, request: Request[MetadataRequest], found: list[TopicPiece]) -> list[TopicPiece]:
        caller, may_see = request.caller, self._security.may_see
        seen = [piece for piece in found if may_see(caller, piece.name)]
        if len(seen) == len(found) or _asks_for_all(request):
            return seen
        names = {piece.name for piece in seen}
        hidden = [_undecoded(piece) for piece in found if piece.name not in names]
        return seen + pieces_of(self._cluster_apis.visible(request, hidden), request.version)

    async def _asked_for(
        self, request: Request[MetadataRequest], topics: list[_Asked]
    ) -> Iterable[MetadataResponse.MetadataResponseTopic]:
        """Request only these topics from the upstream."""
        may_create = request.body.allow_auto_topic_creation
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
        body.API_VERSION = request.version
        answer = await self._cluster_apis.metadata(replace(request, body=body))
        return list(answer.topics)


def _asks_for_all(request: Request[MetadataRequest]) -> bool:
    """Return whether all topics are requested: by null, or by an empty list in version 0, which has no null."""
    topics = request.body.topics
    return topics is None or (request.version == 0 and not topics)


def _asks_for_operations(request: Request[MetadataRequest]) -> bool:
    body = request.body
    return request.version >= 8 and bool(
        body.include_topic_authorized_operations or body.include_cluster_authorized_operations
    )


def _piece(snapshot: MetadataBytes, asked: _Asked) -> TopicPiece | None:
    """Find a topic by name, or by id if it has no name."""
    return snapshot.topics.get(asked.name) if asked.name is not None else snapshot.by_id.get(asked.topic_id)


def _found(snapshot: MetadataBytes, asked: Iterable[_Asked]) -> list[TopicPiece]:
    """Return the requested topics without duplicates."""
    found = {piece.name: piece for topic in asked if (piece := _piece(snapshot, topic)) is not None}
    return list(found.values())


def _bytes_of(pieces: Iterable[TopicPiece]) -> int:
    return sum(len(piece.data) for piece in pieces)


def _undecoded(piece: TopicPiece) -> MetadataResponse.MetadataResponseTopic:
    """Return a topic with its name and id only."""
    return MetadataResponse.MetadataResponseTopic(
        error_code=0, name=piece.name, topic_id=piece.topic_id or NO_TOPIC_ID, partitions=[]
    )
