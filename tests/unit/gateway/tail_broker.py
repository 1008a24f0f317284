"""A broker with one incremental fetch session, for tests of what reads the ends of logs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchResponse

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from tests.unit.gateway import log_batches

Place = tuple[UUID, int]


class TailBroker:
    """Both the connections and the broker. A test appends batches; a read without any waits for the next change."""

    def __init__(self) -> None:
        self.session_id = 7
        self.requests: list[Any] = []
        #: The error of the next response, or of all responses if `rejects_all`.
        self.error_code, self.rejects_all = 0, False
        self.is_away, self.failures = False, 0
        self.log_start_offset = 0
        #: The error of each partition that the broker does not lead.
        self.errors: dict[Place, int] = {}
        self._batches: dict[Place, list[tuple[int, bytes]]] = {}
        self._offsets: dict[Place, int] = {}
        self._changed = asyncio.Event()

    def get(self, _node_id: int) -> Any:
        if self.is_away:
            self.failures += 1
            raise UpstreamUnavailableError("away")
        return self

    def append(self, topic_id: UUID, base_offset: int, count: int, partition: int = 0) -> None:
        """Append a batch of `count` records."""
        batch = base_offset + count - 1, log_batches.batch(base_offset, count)
        self._batches.setdefault((topic_id, partition), []).append(batch)
        self.change()

    def append_corrupt(self, topic_id: UUID, base_offset: int, partition: int = 0) -> None:
        """Append a batch of an unknown format version (magic 9)."""
        data = b"\0" * 16 + b"\x09" + b"\0" * 60
        self._batches.setdefault((topic_id, partition), []).append((base_offset, data))
        self.change()

    def change(self) -> None:
        """Answer the waiting read."""
        self._changed.set()

    async def ask(self, request: Any, _response: Any, _version: int, _timeout_s: float) -> Any:
        self.requests.append(request)
        if request.session_epoch == 0:
            self._offsets.clear()
        for topic in request.topics:
            self._offsets |= {(topic.topic_id, each.partition): each.fetch_offset for each in topic.partitions}
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self._offsets.pop((topic.topic_id, partition), None)
        while not (found := self._found()) and not self.error_code and not self.is_away:
            self._changed.clear()
            await self._changed.wait()
        if self.is_away:
            self.failures += 1
            raise UpstreamUnavailableError("away")
        error_code = self.error_code
        if not self.rejects_all:
            self.error_code = 0
        return FetchResponse(error_code=error_code, session_id=self.session_id, responses=found)

    def _found(self) -> list[Any]:
        topic = FetchResponse.FetchableTopicResponse
        found = []
        for place, offset in self._offsets.items():
            error = self.errors.get(place, 0)
            if offset < self.log_start_offset:
                error = int(ErrorCode.OFFSET_OUT_OF_RANGE)
            records = b"".join(data for last, data in self._batches.get(place, ()) if last >= offset)
            if error or records:
                data = topic.PartitionData(
                    partition_index=place[1], error_code=error, high_watermark=1_000, last_stable_offset=1_000,
                    log_start_offset=self.log_start_offset, aborted_transactions=[],
                    records=b"" if error else records,
                )  # fmt: skip
                found.append(topic(topic="", topic_id=place[0], partitions=[data]))
        return found
