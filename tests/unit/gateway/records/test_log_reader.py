"""Reading the upstream log: holes at its end, replaced logs, and responses without records."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.batch_cache import BatchCache, batches_from
from sharegroup.gateway.records.log_reader import LogPosition, LogReader, LogReadError
from sharegroup.gateway.upstream.cluster import Leader, Topic, UpstreamCluster
from sharegroup.types import OffsetRange
from tests.unit.gateway import log_batches

TOPIC_ID = UUID(int=7)
MAX_BYTES = 10**6


class Cluster(UpstreamCluster):
    """One topic partition, with the responses of its leader in order."""

    def __init__(self, *answers: Any) -> None:
        super().__init__({"bootstrap_servers": ["127.0.0.1:1"]})
        self.answers = list(answers)
        self.refreshed = 0
        #: (topic id, newest version) of the fetches.
        self.asked: list[tuple[UUID, int]] = []
        self.fetched_from: list[int] = []
        self.lead(1, 1)

    def lead(self, node_id: int, epoch: int, topic_id: UUID | None = TOPIC_ID) -> None:
        partition = SimpleNamespace(partition_index=0, leader_id=node_id, leader_epoch=epoch)
        topic = SimpleNamespace(error_code=0, name="orders", topic_id=topic_id, partitions=[partition])
        self.apply_metadata(SimpleNamespace(cluster_id="c", brokers=[], topics=[topic]))

    async def ask(
        self, node_id: int, request: Any, response: Any, version: int | None = None, *_: Any, **__: Any
    ) -> Any:
        if response is FetchResponse:
            self.fetched_from.append(node_id)
            assert version is not None
            self.asked.append((request.topics[0].topic_id, version))
        answer = self.answers.pop(0)
        return await answer() if callable(answer) else answer

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


def log_start(offset: int, error: int = 0) -> Any:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    found = topic.ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[topic(name="orders", partitions=[found])])


def position(read_committed: bool = False) -> LogPosition:
    return LogPosition(Topic("orders", TOPIC_ID, {0: Leader(1, 1)}), 0, read_committed)


def reader(cluster: Cluster) -> LogReader:
    return LogReader(cluster, BatchCache(MAX_BYTES))


def read(log: LogReader, offset: int, read_committed: bool = False) -> OffsetRange | None:
    """Read, and return the part of the log that is cached from there."""

    async def run() -> None:
        await log.read(position(read_committed), offset)

    asyncio.run(run())
    return known(log, offset, read_committed)


def known(log: LogReader, offset: int, read_committed: bool = False) -> OffsetRange | None:
    part = batches_from(log.get_cached(position(read_committed), offset, MAX_BYTES), offset, MAX_BYTES)
    return None if part is None else part.covered


def test_read_covers_the_hole_before_its_batches() -> None:
    log = reader(Cluster(fetched(log_batches.batch(5, 10), high_watermark=100)))
    assert read(log, 2) == OffsetRange(2, 14)


EMPTY = {"ids": ["below the end", "at the end", "a batch cut off", "throttled"]}


def nothing_shown() -> list[Any]:
    return [
        fetched(high_watermark=1_000, stable=1_000),
        fetched(high_watermark=10),
        fetched(log_batches.batch(10, 5)[:-1], high_watermark=20),
        FetchResponse(error_code=0, responses=[]),
    ]


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("answer", nothing_shown(), **EMPTY)
def test_response_without_batches_covers_nothing(answer: Any, read_committed: bool) -> None:
    """A slow remote read looks like a log whose last records were removed by compaction."""
    log = reader(Cluster(answer))
    with pytest.raises(LogReadError) as error:
        read(log, 10, read_committed)
    assert error.value.code == ErrorCode.NONE
    assert known(log, 10, read_committed) is None


def test_hole_is_covered_when_a_later_batch_is_seen() -> None:
    log = reader(Cluster(fetched(high_watermark=1_000), fetched(log_batches.batch(500, 10), high_watermark=1_000)))
    with pytest.raises(LogReadError):
        read(log, 10)
    assert read(log, 10) == OffsetRange(10, 509)


async def test_pauses_after_empty_reads_increase() -> None:
    answers = [fetched(high_watermark=100) for _ in range(7)]
    cluster = Cluster(*answers, fetched(log_batches.batch(10, 5), high_watermark=100))
    log = reader(cluster)
    pauses = []
    for _ in answers:
        with pytest.raises(LogReadError):
            await log.read(position(), 10)
        pauses.append(log.pause_s(position(), 10))
        asked = len(cluster.asked)
        log.prefetch(position(), 10)
        await asyncio.sleep(0)
        assert len(cluster.asked) == asked
    assert [round(pause, 1) for pause in pauses] == [0.2, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert log.pause_s(position(), 11) == log.pause_s(position(True), 10) == 0
    await log.read(position(), 10)
    assert log.pause_s(position(), 10) == 0


async def test_failed_reads_of_a_log_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Many members may read from several offsets meanwhile."""
    answers = [fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in range(3)]
    log = reader(Cluster(*answers, fetched(log_batches.batch(10, 5), high_watermark=100)))
    for offset in (10, 11, 12):
        with pytest.raises(LogReadError):
            await log.read(position(), offset)
    await log.read(position(), 10)
    failed, recovered = caplog.messages
    assert failed == "orders-0: failed to read the log; retrying: the upstream broker responded to a fetch with error 6"
    assert re.fullmatch(r"orders-0: the log can be read again after \d+\.\d s", recovered)


async def test_leader_change_ends_the_pause() -> None:
    cluster = Cluster(fetched(high_watermark=100))
    log = reader(cluster)
    with pytest.raises(LogReadError):
        await log.read(position(), 10)
    cluster.lead(2, 2)
    assert log.pause_s(position(), 10) == 0


def test_topics_are_read_by_id_if_brokers_have_ids() -> None:
    cluster = Cluster(fetched(log_batches.batch(0, 10)), fetched(log_batches.batch(0, 10)))
    log = reader(cluster)
    assert read(log, 0) == OffsetRange(0, 9)
    cluster.lead(1, 1, None)
    made = cluster.topic("orders")
    assert made is not None

    async def by_name() -> None:
        await log.read(LogPosition(made, 0, False), 0)

    asyncio.run(by_name())
    assert cluster.asked == [(TOPIC_ID, 13), (made.topic_id, 12)]


def test_log_shorter_than_the_cache_replaces_it() -> None:
    log = reader(Cluster(
        fetched(log_batches.batch(0, 10), high_watermark=30),
        fetched(log_batches.batch(20, 10), high_watermark=30),
        fetched(log_batches.batch(10, 5), high_watermark=15),
    ))  # fmt: skip
    assert read(log, 0) == OffsetRange(0, 9)
    assert read(log, 20) == OffsetRange(20, 29)
    assert read(log, 10) == OffsetRange(10, 14)
    assert (known(log, 0), known(log, 20)) == (None, None)


@pytest.mark.parametrize(("answer", "start"), [(log_start(30), 30), (log_start(-1, error=3), -1)])
def test_missing_log_start_offset_is_requested(answer: Any, start: int) -> None:
    log = reader(Cluster(fetched(error=int(ErrorCode.OFFSET_OUT_OF_RANGE), start=-1), answer))
    with pytest.raises(LogReadError) as error:
        read(log, 10)
    assert (error.value.code, error.value.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, start)


def test_log_is_read_again_from_a_new_leader() -> None:
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
def test_recreated_topic_is_not_read_from_the_cache(read_committed: bool) -> None:
    cluster = Cluster(fetched(log_batches.batch(0, 10)))
    log = reader(cluster)
    assert read(log, 0, read_committed) == OffsetRange(0, 9)
    cluster.lead(1, 1, UUID(int=8))
    assert known(log, 0, read_committed) is None
    with pytest.raises(LogReadError) as error:
        read(log, 0, read_committed)
    assert error.value.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_read_during_a_leader_change_is_not_cached() -> None:
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
def test_not_leader_error_refreshes_the_metadata(code: ErrorCode, refreshed: int) -> None:
    cluster = Cluster(fetched(error=int(code), start=30))
    with pytest.raises(LogReadError) as error:
        read(reader(cluster), 10)
    assert (error.value.code, error.value.log_start_offset, cluster.refreshed) == (code, 30, refreshed)
