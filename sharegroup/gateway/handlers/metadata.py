"""Metadata: from a snapshot of the upstream's where it can be, which costs no more than to send it.

    all topics, or large ones       a snapshot that is fresh, with those left out that the caller may not see
    topics by name or id            the same, while a snapshot is fresh; else they are asked for by themselves
    topics that it does not have    asked for by themselves, and made there if that is wanted
    authorized operations           asked for: no snapshot has them
    older brokers than clients      asked for: the response is made of theirs, with topic ids if they have none

The brokers' part is made anew in each response (`ClusterApis.with_our_brokers`).
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

#: The metadata of fewer bytes is asked for, and decoded, as quickly as it is found out.
LARGE_BYTES = 16_384
#: The first version of the response with topic ids.
TOPIC_IDS_VERSION = 10
#: To see what a caller may see of more topics takes milliseconds, and is done on a thread.
MANY_TOPICS = 1_000

_Asked = MetadataRequest.MetadataRequestTopic


class Metadata:
    """The handler."""

    def __init__(self, cluster_apis: ClusterApis, snapshots: MetadataSnapshots, security: Authorization) -> None:
        self._cluster_apis, self._snapshots, self._security = cluster_apis, snapshots, security

    async def __call__(self, request: Request[MetadataRequest]) -> AnyResponse:
        """In the client's version, whatever the upstream's is."""
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
        """What the response can be made of; None: the upstream is to be asked for it."""
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
        """What the caller may see of it, and that he may not see the rest where he asked for it."""
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
        """The upstream's answer for these topics alone."""
        may_create = request.body.allow_auto_topic_creation
        body = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
        body.API_VERSION = request.version
        answer = await self._cluster_apis.metadata(replace(request, body=body))
        return list(answer.topics)


def _asks_for_all(request: Request[MetadataRequest]) -> bool:
    """By null; in version 0, which has none, by an empty list."""
    topics = request.body.topics
    return topics is None or (request.version == 0 and not topics)


def _asks_for_operations(request: Request[MetadataRequest]) -> bool:
    body = request.body
    return request.version >= 8 and bool(
        body.include_topic_authorized_operations or body.include_cluster_authorized_operations
    )


def _piece(snapshot: MetadataBytes, asked: _Asked) -> TopicPiece | None:
    """By name, or by id where there is no name."""
    return snapshot.topics.get(asked.name) if asked.name is not None else snapshot.by_id.get(asked.topic_id)


def _found(snapshot: MetadataBytes, asked: Iterable[_Asked]) -> list[TopicPiece]:
    """Each once, however often it is asked for."""
    found = {piece.name: piece for topic in asked if (piece := _piece(snapshot, topic)) is not None}
    return list(found.values())


def _bytes_of(pieces: Iterable[TopicPiece]) -> int:
    return sum(len(piece.data) for piece in pieces)


def _undecoded(piece: TopicPiece) -> MetadataResponse.MetadataResponseTopic:
    """No more of a topic than which it is."""
    return MetadataResponse.MetadataResponseTopic(
        error_code=0, name=piece.name, topic_id=piece.topic_id or NO_TOPIC_ID, partitions=[]
    )
