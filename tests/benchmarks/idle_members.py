"""Members that have nothing to do, as one process: each has a connection of its own, fetches and heartbeats.

python -m tests.benchmarks.idle_members HOST PORT GROUP TOPIC MEMBERS; prints "fetching" when all members fetch.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from itertools import groupby
from operator import itemgetter
from typing import Any

from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.protocol.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

_MAX_WAIT_MS = 500


class Member:
    """One member on one connection."""

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._id = str(uuid.uuid4())
        self._epoch = self._session_epoch = self._correlation_id = 0
        self._assignment: list[Any] = []
        #: The partitions of the share session. An assignment can come in parts.
        self._in_session: set[tuple[Any, int]] = set()
        self._next_heartbeat = 0.0
        self.is_fetching = asyncio.Event()

    async def run(self, host: str, port: int) -> None:
        """Join, then fetch for ever."""
        self._reader, self._writer = await asyncio.open_connection(host, port)
        while not self._assignment:
            await self._heartbeat([self._topic] if not self._epoch else None)
            await asyncio.sleep(max(0.0, self._next_heartbeat - time.monotonic()))  # as the coordinator told us
        while True:
            await self._fetch()
            self.is_fetching.set()
            if time.monotonic() >= self._next_heartbeat:
                await self._heartbeat(None)

    async def _heartbeat(self, topics: list[str] | None) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        answer = await self._ask(request, ShareGroupHeartbeatResponse, 1)
        if answer.error_code:
            raise RuntimeError(f"heartbeat: error {answer.error_code} {answer.error_message}")
        self._epoch = answer.member_epoch
        self._next_heartbeat = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assignment = answer.assignment.topic_partitions

    async def _fetch(self) -> None:
        fetch = ShareFetchRequest.FetchTopic
        added = [
            (topic.topic_id, partition)
            for topic in self._assignment
            for partition in topic.partitions
            if (topic.topic_id, partition) not in self._in_session
        ]
        topics = [
            fetch(
                topic_id=topic_id,
                partitions=[
                    fetch.FetchPartition(partition_index=partition, acknowledgement_batches=[])
                    for _, partition in partitions
                ],
            )
            for topic_id, partitions in groupby(added, itemgetter(0))
        ]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=52_428_800,
            max_records=500,
            batch_size=500,
            share_acquire_mode=0,
            is_renew_ack=False,
            topics=topics,
            forgotten_topics_data=[],
        )
        answer = await self._ask(request, ShareFetchResponse, 2)
        if answer.error_code:
            raise RuntimeError(f"fetch: error {answer.error_code} {answer.error_message}")
        self._session_epoch += 1
        self._in_session.update(added)

    async def _ask(self, request: Any, response: Any, version: int) -> Any:
        self._correlation_id += 1
        self._writer.write(wire.encode_request(request, version, self._correlation_id, "idle"))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = memoryview(await self._reader.readexactly(size))
        return wire.decode_response(response, version, frame)


async def _run(host: str, port: int, group: str, topic: str, count: int) -> None:
    members = [Member(group, topic) for _ in range(count)]
    running = asyncio.gather(*(member.run(host, port) for member in members))
    fetching = asyncio.gather(*(member.is_fetching.wait() for member in members))
    await asyncio.wait([running, fetching], return_when=asyncio.FIRST_COMPLETED)
    if fetching.done():
        print("fetching", flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])))
