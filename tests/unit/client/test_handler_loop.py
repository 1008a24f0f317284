"""A handler loop on both consumers, with brokers that a test scripts: each fetch acquires one record."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sharegroup.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    IllegalStateError,
    Record,
    Reject,
    Release,
    RequestError,
    ShareConsumer,
)
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.unit.client.scripted_cluster import TOPIC, ScriptedCluster


def acknowledged(cluster: ScriptedCluster) -> dict[int, int]:
    """Return the acknowledge type of each offset that a broker received, without renewals."""
    found = {}
    for kind in (ShareFetchRequest, ShareAcknowledgeRequest):
        for _, request in cluster.requests(kind):
            for topic in request.topics or ():
                for partition in topic.partitions:
                    for batch in partition.acknowledgement_batches:
                        kinds = batch.acknowledge_types
                        for offset in range(batch.first_offset, batch.last_offset + 1):
                            found[offset] = kinds[0] if len(kinds) == 1 else kinds[offset - batch.first_offset]
    return found


def consumer_of(cluster: ScriptedCluster) -> ShareConsumer:
    return ShareConsumer("broker-1:1", group_id="billing", topics=[TOPIC], connector=cluster, retry_backoff_ms=1)


def test_functions_run_on_threads_and_decide() -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster)
    seen: list[int] = []
    threads = set()

    @consumer.handler(concurrency=2)
    def handle(record: Record[bytes]) -> None:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        seen.append(record.offset)
        if len(seen) >= 6:
            consumer.stop()
        if record.offset % 3 == 1:
            raise Reject("bad")
        if record.offset % 3 == 2:
            raise Release("not now")

    consumer.run()
    kinds = acknowledged(cluster)
    expected = [AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE]
    assert {offset: kinds[offset] for offset in seen} == {offset: expected[offset % 3] for offset in seen}
    assert threads == {"sharegroup-handler"}
    assert cluster.requests(ShareGroupHeartbeatRequest)[-1][1].member_epoch == -1
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_coroutines_run_beside_each_other() -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster)
    running = asyncio.Semaphore(0)
    met: list[int] = []

    @consumer.handler(concurrency=2)
    async def handle(record: Record[bytes]) -> None:
        if len(met) % 2 == 0:  # waits for the other call
            met.append(record.offset)
            await running.acquire()
        else:
            met.append(record.offset)
            running.release()
            consumer.stop()

    consumer.run()
    assert len(met) >= 2
    assert all(acknowledged(cluster)[offset] == AcknowledgeType.ACCEPT for offset in met[:2])


def test_async_consumer_runs_functions_and_coroutines() -> None:
    async def run(is_coroutine: bool) -> None:
        cluster = ScriptedCluster()
        consumer = AsyncShareConsumer(
            "broker-1:1", group_id="billing", topics=[TOPIC], connector=cluster, retry_backoff_ms=1
        )
        seen: list[Record[Any]] = []

        def function(records: list[Record[bytes]]) -> dict[Record[bytes], Exception]:
            seen.extend(records)
            consumer.stop()
            return {records[0]: Reject("bad")}

        async def coroutine(records: list[Record[bytes]]) -> dict[Record[bytes], Exception]:
            return function(records)

        consumer.batch_handler(max_records=10)(coroutine if is_coroutine else function)
        await consumer.run()
        assert acknowledged(cluster)[seen[0].offset] == AcknowledgeType.REJECT

    for is_coroutine in (False, True):
        asyncio.run(run(is_coroutine))


def test_call_that_outlasts_the_drain_is_cancelled_and_released() -> None:
    cluster = ScriptedCluster()
    consumer = consumer_of(cluster)
    cancelled: list[int] = []

    @consumer.handler()
    def handle(record: Record[bytes]) -> None:
        consumer.stop()
        record.cancelled.wait()
        cancelled.append(record.offset)

    consumer.run(drain_s=0.01)
    kinds = acknowledged(cluster)
    assert kinds
    assert set(kinds.values()) == {AcknowledgeType.RELEASE}


def test_error_of_a_poll_ends_the_run() -> None:
    consumer = consumer_of(ScriptedCluster(UpstreamLoginRejectedError("wrong password")))
    consumer.handler()(lambda record: None)
    with pytest.raises(RequestError) as error:
        consumer.run()
    assert error.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    for thread in threading.enumerate():
        if thread.name.startswith("sharegroup-"):
            thread.join(60)
            assert not thread.is_alive(), thread.name


def test_run_needs_one_handler() -> None:
    with consumer_of(ScriptedCluster()) as consumer:
        with pytest.raises(IllegalStateError, match="register a handler first"):
            consumer.run()
        consumer.handler()(lambda record: None)
        with pytest.raises(IllegalStateError, match="has a handler already"):
            consumer.handler()(lambda record: None)
