"""The incremental fetch sessions of one client at the simulated brokers (KIP-227)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchResponse

from sharegroup.protocol.topic_ids import topic_id_text
from tests.simulation.brokers.kafka_log import SimulatedKafka

FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 70, 71

Place = tuple[UUID, int]


@dataclass
class _Session:
    id: int
    epoch: int = 0
    offsets: dict[Place, int] = field(default_factory=dict)


class FetchSessions:
    """The sessions, one for each broker. `read` returns the data of a partition, or None if there is nothing new."""

    def __init__(self, kafka: SimulatedKafka, read: Callable[[int, Any, Place, int], Any | None]) -> None:
        self._kafka, self._read = kafka, read
        self._sessions: dict[int, _Session] = {}
        self._made = 0

    async def answer(self, node_id: int, request: Any) -> Any:
        """Return the response to a request with a session: when a partition has something new, or after its wait."""
        error_code = self._apply(node_id, request)
        if error_code:
            return FetchResponse(throttle_time_ms=0, error_code=error_code, session_id=0, responses=[])
        found = self._found(node_id, request)
        if not found:
            await self._wait(request.max_wait_ms / 1000)
            found = self._found(node_id, request)
        topic = FetchResponse.FetchableTopicResponse
        responses = [topic(topic="", topic_id=place[0], partitions=[data]) for place, data in found]
        session_id = self._sessions[node_id].id if node_id in self._sessions else 0
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=session_id, responses=responses)

    def lose(self, node_id: int) -> None:
        """Lose the session of a broker, as when it evicts it or restarts."""
        self._sessions.pop(node_id, None)

    def _apply(self, node_id: int, request: Any) -> int:
        session = self._sessions.get(node_id)
        if request.session_epoch == 0:
            self._made += 1
            session = self._sessions[node_id] = _Session(self._made)
        elif session is None or session.id != request.session_id:
            return FETCH_SESSION_ID_NOT_FOUND
        elif request.session_epoch != session.epoch:
            return INVALID_FETCH_SESSION_EPOCH
        session.epoch += 1
        for topic in request.topics:
            session.offsets |= {(topic.topic_id, each.partition): each.fetch_offset for each in topic.partitions}
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.offsets.pop((topic.topic_id, partition), None)
        return 0

    def _found(self, node_id: int, request: Any) -> list[tuple[Place, Any]]:
        session = self._sessions.get(node_id)
        offsets = session.offsets if session is not None else {}
        read = ((place, self._read(node_id, request, place, offset)) for place, offset in offsets.items())
        return [(place, data) for place, data in read if data is not None]

    async def _wait(self, timeout_s: float) -> None:
        """Wait until something is appended to any topic of the session's kind, at most for the timeout."""
        changed = asyncio.get_running_loop().create_future()
        names = {topic.name for topic in map(self._topic, self._topic_ids()) if topic is not None}

        def on_append(name: str, _partition: int) -> None:
            if name in names and not changed.done():
                changed.set_result(None)

        self._kafka.listeners.append(on_append)
        try:
            await asyncio.wait([changed], timeout=timeout_s)
        finally:
            self._kafka.listeners.remove(on_append)

    def _topic_ids(self) -> set[UUID]:
        return {topic_id for session in self._sessions.values() for topic_id, _ in session.offsets}

    def _topic(self, topic_id: UUID) -> Any:
        return self._kafka.topic_by_id(topic_id_text(topic_id))
