"""Reading the upstream log: holes at its end, logs that change, and what a broker says when it has nothing to send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.batch_cache import BatchCache, batches_from
from sharegroup.gateway.log_reader import LogPosition, LogReader, LogReadError
from sharegroup.gateway.upstream_cluster import Leader, Topic, UpstreamCluster
from sharegroup.types import OffsetRange
from tests.unit.gateway import log_batches

TOPIC_ID = UUID(int=7)
MAX_BYTES = 10**6


class Cluster(UpstreamCluster):
    """One topic partition, and the answers of its leader in order."""

    def __init__(self, *answers: Any, list_offsets_version: int = 11) -> None:
        super().__init__({"bootstrap_servers": ["127.0.0.1:1"]})
        self.answers, self.list_offsets_version = list(answers), list_offsets_version
        self.refreshed = 0
        self.fetched_from: list[int] = []
        self.lead(1, 1)

    def lead(self, node_id: int, epoch: int, topic_id: UUID = TOPIC_ID) -> None:
        partition = SimpleNamespace(partition_index=0, leader_id=node_id, leader_epoch=epoch)
        topic = SimpleNamespace(error_code=0, name="orders", topic_id=topic_id, partitions=[partition])
        self.learn(SimpleNamespace(cluster_id="c", brokers=[], topics=[topic]))

    async def ask(self, node_id: int, request: Any, response: Any, *_: Any, **__: Any) -> Any:
        if response is FetchResponse:
            self.fetched_from.append(node_id)
        answer = self.answers.pop(0)
        return await answer() if callable(answer) else answer

    async def features(self, node_id: int) -> Any:
        return SimpleNamespace(ranges={ListOffsetsRequest.API_KEY: (0, self.list_offsets_version)})

    async def refresh(self) -> None:
        self.refreshed += 1


def fetched(records: bytes = b"", *, high_watermark: int = 0, stable: int = -1, error: int = 0, start: int = 0) -> Any:
    data = FetchResponse.FetchableTopicResponse.PartitionData
    partition = data(
        partition_index=0, error_code=error, high_watermark=high_watermark, last_stable_offset=stable,
        log_start_offset=start, aborted_transactions=[], records=records,
    )  # fmt: skip
    return FetchResponse(
        error_code=0, responses=[FetchResponse.FetchableTopicResponse(topic="orders", partitions=[partition])]
    )


def local_start(offset: int, error: int = 0) -> Any:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    found = topic.ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[topic(name="orders", partitions=[found])])


def position(read_committed: bool = False) -> LogPosition:
    return LogPosition(Topic("orders", TOPIC_ID, {0: Leader(1, 1)}), 0, read_committed)


def reader(cluster: Cluster) -> LogReader:
    return LogReader(cluster, BatchCache(MAX_BYTES))


def read(log: LogReader, offset: int, read_committed: bool = False) -> OffsetRange | None:
    """Read, and tell what part of the log is known from there on."""

    async def run() -> None:
        await log.read(position(read_committed), offset)

    asyncio.run(run())
    return known(log, offset, read_committed)


def known(log: LogReader, offset: int, read_committed: bool = False) -> OffsetRange | None:
    part = batches_from(log.cached(position(read_committed), offset, MAX_BYTES), offset, MAX_BYTES)
    return None if part is None else part.covered


def test_what_was_read_is_there_with_the_hole_before_it() -> None:
    log = reader(Cluster(fetched(log_batches.batch(5, 10), high_watermark=100)))
    assert read(log, 2) == OffsetRange(2, 14)


@pytest.mark.parametrize(("read_committed", "last"), [(False, 19), (True, 11)])
def test_a_hole_at_the_end_of_the_log_reaches_to_what_the_group_may_see(read_committed: bool, last: int) -> None:
    cluster = Cluster(fetched(high_watermark=20, stable=12), local_start(0))
    assert read(reader(cluster), 10, read_committed) == OffsetRange(10, last)


@pytest.mark.parametrize(
    "answer",
    [
        fetched(high_watermark=10),
        fetched(log_batches.batch(10, 5)[:-1], high_watermark=20),
        FetchResponse(error_code=0, responses=[]),
    ],
    ids=["at the end", "a batch cut off", "throttled"],
)
def test_no_hole_where_the_broker_said_nothing_of_the_kind(answer: Any) -> None:
    log = reader(Cluster(answer))
    with pytest.raises(LogReadError) as error:
        read(log, 10)
    assert error.value.code == ErrorCode.NONE
    assert known(log, 10) is None


@pytest.mark.parametrize("answer", [local_start(11), local_start(-1), local_start(-1, error=3)])
def test_no_hole_where_the_log_may_be_in_remote_storage(answer: Any) -> None:
    log = reader(Cluster(fetched(high_watermark=20), answer))
    with pytest.raises(LogReadError):
        read(log, 10)
    assert known(log, 10) is None


def test_a_broker_without_tiered_storage_is_not_asked() -> None:
    cluster = Cluster(fetched(high_watermark=20), list_offsets_version=7)
    assert read(reader(cluster), 10) == OffsetRange(10, 19)


def test_a_log_with_another_leader_epoch_is_read_anew_from_the_new_leader() -> None:
    cluster = Cluster(
        fetched(log_batches.batch(0, 10), high_watermark=10), fetched(log_batches.batch(0, 5), high_watermark=5)
    )
    log = reader(cluster)
    assert read(log, 0) == OffsetRange(0, 9)
    cluster.lead(1, 1)
    assert known(log, 0) == OffsetRange(0, 9)
    cluster.lead(2, 2)
    assert known(log, 0) is None
    assert read(log, 0) == OffsetRange(0, 4)
    assert cluster.fetched_from == [1, 2]


@pytest.mark.parametrize("read_committed", [False, True])
def test_a_topic_that_was_made_anew_is_not_read_from_the_cache(read_committed: bool) -> None:
    cluster = Cluster(fetched(log_batches.batch(0, 10)))
    log = reader(cluster)
    assert read(log, 0, read_committed) == OffsetRange(0, 9)
    cluster.lead(1, 1, UUID(int=8))
    assert known(log, 0, read_committed) is None
    with pytest.raises(LogReadError) as error:
        read(log, 0, read_committed)
    assert error.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_what_was_on_its_way_when_the_leader_changed_is_not_kept() -> None:
    def moved(answer: Any) -> Callable[[], Awaitable[Any]]:
        async def late() -> Any:
            cluster.lead(2, 2)
            return answer

        return late

    cluster = Cluster()
    cluster.answers = [moved(fetched(log_batches.batch(0, 10)))]
    assert read(reader(cluster), 0) is None


@pytest.mark.parametrize(
    ("code", "refreshed"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1), (ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
)
def test_a_broker_that_does_not_lead_makes_us_ask_who_does(code: ErrorCode, refreshed: int) -> None:
    cluster = Cluster(fetched(error=int(code), start=30))
    with pytest.raises(LogReadError) as error:
        read(reader(cluster), 10)
    assert (error.value.code, error.value.log_start_offset, cluster.refreshed) == (code, 30, refreshed)
