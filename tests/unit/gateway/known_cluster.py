"""An upstream cluster whose metadata and logs a test sets; it derives its state like the real cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError


class KnownCluster(UpstreamCluster):
    """A cluster with the topics `there`: {topic: (id, leader of its one partition)}.

    The gateway sees changes with its next request. `answers` are the partition data of the next Fetch responses;
    without one, a response is empty.
    """

    def __init__(self, **there: tuple[UUID | None, int]) -> None:
        super().__init__({"bootstrap_servers": ["127.0.0.1:1"]})
        self.there = dict(there)
        self.answers: list[Any] = []
        #: The names in each request; None for all topics.
        self.asked: list[list[str] | None] = []
        self.fetches: list[Any] = []
        self.is_away = False
        self.apply_metadata(self._answer(None))

    async def _metadata(self, names: Any = None) -> Any:
        self.asked.append(None if names is None else sorted(names))
        if self.is_away:
            raise UpstreamUnavailableError("away")
        return self._answer(names)

    def _answer(self, names: Any) -> Any:
        topics = []
        for name in self.there if names is None else names:
            topic_id, leader = self.there.get(name, (None, -1))
            partition = SimpleNamespace(partition_index=0, leader_id=leader, leader_epoch=leader)
            code = 0 if name in self.there else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topics.append(SimpleNamespace(error_code=code, name=name, topic_id=topic_id, partitions=[partition]))
        return SimpleNamespace(cluster_id="c", brokers=[], topics=topics)

    async def ask(self, node_id: int, request: Any, response: Any, *_: Any, **__: Any) -> Any:
        assert response is FetchResponse
        self.fetches.append(request)
        topic = FetchResponse.FetchableTopicResponse
        found = self.answers.pop(0) if self.answers else partition_data()
        return FetchResponse(error_code=0, responses=[topic(topic="", partitions=[found])])


def partition_data(records: bytes = b"", *, high_watermark: int = 1_000, error: int = 0, start: int = 0) -> Any:
    """Return the data of a partition in a Fetch response."""
    return FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=0, error_code=error, high_watermark=high_watermark, last_stable_offset=high_watermark,
        log_start_offset=start, aborted_transactions=[], records=records,
    )  # fmt: skip
