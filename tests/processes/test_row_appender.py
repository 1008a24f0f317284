"""Rows on their way to the log: in order and once, whatever becomes of connections, leaders and answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from sharegroup.gateway.job_client import row_appender
from sharegroup.gateway.job_client.row_appender import JobUnavailableError, RowAppender
from sharegroup.gateway.upstream.cluster import SLOW_RESPONSE_S
from sharegroup.kafka_clients.response_partitions import choose_partition
from tests.harness.event_loop import EventLoop, advance, until
from tests.processes.scripted_broker import (
    APPEND,
    HANG_UP_AFTER,
    HANG_UP_BEFORE,
    INVALID_PRODUCER_EPOCH,
    NEVER_ANSWER,
    OLD,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TOPIC,
    ScriptedBroker,
    ScriptedCluster,
)

NOT_LEADER, MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED = 6, 10, 19, 29
COORDINATOR_LOAD_IN_PROGRESS, CLUSTER_AUTHORIZATION_FAILED = 14, 31
DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED = 46, 59, 90
TIMEOUT_S = 20.0

Parts = tuple[ScriptedBroker, ScriptedCluster, RowAppender]
Start = Callable[..., Awaitable[Parts]]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_appender, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(row_appender, "MAX_PAUSE_S", 0.01)


@contextlib.asynccontextmanager
async def appending(
    timeout_s: float = TIMEOUT_S, partitions: int = 1, versions: dict[int, int] | None = None
) -> AsyncIterator[Parts]:
    """An appender and its broker. At the end no task may be left, and nothing counted as waiting."""
    others: set[Any] = set(asyncio.all_tasks())
    broker = await ScriptedBroker(versions=versions).start()
    cluster = ScriptedCluster(broker, partitions=partitions)
    appender = RowAppender(cluster, {}, timeout_s)
    try:
        yield broker, cluster, appender
    finally:
        await appender.close()
        await broker.stop()
        cluster.close()
    others.add(asyncio.current_task())  # need not be the one that has begun
    await until(lambda: asyncio.all_tasks() <= others)
    assert appender._pending_bytes == 0


@pytest.fixture
def start(loop: EventLoop) -> Iterator[Start]:
    """Return a function that starts an appender with one broker, which run until the end of the test."""
    problems, started = loop.collect_problems(), contextlib.AsyncExitStack()

    async def start(**options: Any) -> Parts:
        return await started.enter_async_context(appending(**options))

    yield start
    loop.finish(started.aclose())
    assert problems == []


async def problem_of(row: asyncio.Future[None]) -> str:
    with pytest.raises(JobUnavailableError) as error:
        await row
    return str(error.value)


def rows(appender: RowAppender, *values: bytes) -> list[asyncio.Future[None]]:
    return [appender.append(TOPIC, b"key", value) for value in values]


async def replica_of(broker: ScriptedBroker, cluster: ScriptedCluster, appender: RowAppender) -> ScriptedBroker:
    """Another broker, which knows the producer of a row that is in the log of the first one."""
    other = await ScriptedBroker(node_id=2).start()
    cluster._brokers = (broker, other)
    await rows(appender, b"1")[0]
    other.producers |= broker.producers
    return other


NUMBERS = tuple(b"%d" % number for number in range(1_200))


# -- in order ----------------------------------------------------------------------------------------------------------


async def test_rows_come_in_order_and_those_that_come_meanwhile_together(start: Start) -> None:
    broker, _, appender = await start()
    answer = asyncio.Event()
    broker.script += [answer]
    first = rows(appender, b"first")
    await until(lambda: len(broker.produced) == 1)
    rest = rows(appender, *NUMBERS)
    assert not first[0].done()
    answer.set()
    await asyncio.gather(*first, *rest)
    assert broker.logs[0] == [b"first", *NUMBERS]
    assert [(found.sequence, len(found.rows)) for found in broker.produced] == [
        (0, 1), (1, 500), (501, 500), (1_001, 200)
    ]  # fmt: skip
    assert len(broker.connections) == broker.producer_ids == 1


async def test_a_batch_has_so_many_bytes_and_a_larger_row_is_alone(start: Start) -> None:
    large = b"x" * (row_appender.MAX_BATCH_BYTES + 1)
    half = b"y" * (row_appender.MAX_BATCH_BYTES // 2)

    broker, _, appender = await start()
    await asyncio.gather(*rows(appender, b"1", large, half, b"2", half))
    assert [found.rows for found in broker.produced] == [(b"1",), (large,), (half, b"2"), (half,)]


@pytest.mark.parametrize(("now", "used"), [(3, 3), (5, 3), (2, 2)], ids=["same", "grown", "created again"])
async def test_key_stays_in_its_partition_when_the_topic_grows(now: int, used: int, start: Start) -> None:
    """The job may read two partitions in any order, but the rows of one key must be read in theirs."""
    broker, cluster, appender = await start(partitions=3)
    keys = [b"group-%d" % number for number in range(50)]
    await asyncio.gather(*(appender.append(TOPIC, key, key) for key in keys))
    cluster.lead(1, now)
    broker.logs.clear()
    await asyncio.gather(*(appender.append(TOPIC, key, key) for key in keys))
    assert set(broker.logs) == set(range(used))
    for partition, log in broker.logs.items():
        assert log == [key for key in keys if choose_partition(key, used) == partition]


async def test_a_row_for_every_partition(start: Start) -> None:
    broker, _, appender = await start(partitions=3)
    times = await asyncio.gather(*appender.append_everywhere(TOPIC, b"key", b"row"))
    assert len(times) == 3
    assert broker.logs == {partition: [b"row"] for partition in range(3)}
    with pytest.raises(JobUnavailableError, match="do not exist"):
        appender.append_everywhere("another", b"key", b"row")


@pytest.mark.parametrize(("key", "murmur2"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)])
def test_keys_are_hashed_as_in_java(key: bytes, murmur2: int) -> None:
    """The numbers are those of Kafka's own test of its hash function."""
    for count in (1, 3, 10, 1_000):
        assert choose_partition(key, count) == (murmur2 & 0x7FFFFFFF) % count


async def test_a_broker_of_kafka_2_1(start: Start) -> None:
    broker, _, appender = await start(versions=OLD)
    await asyncio.gather(*rows(appender, *NUMBERS[:3]))
    assert broker.logs[0] == list(NUMBERS[:3])
    assert broker.request_versions == {7}


async def test_topics_are_named_by_name(start: Start) -> None:
    broker, _, appender = await start()
    await asyncio.gather(*rows(appender, b"1"))
    assert broker.request_versions == {9}


async def test_sequence_numbers_begin_again_after_the_last(start: Start) -> None:
    broker, _, appender = await start()
    await rows(appender, b"1")[0]
    appender._queues[TOPIC, 0]._sequence = 2**31 - 2
    broker.producers.clear()
    await asyncio.gather(*rows(appender, b"2", b"3", b"4"))
    await rows(appender, b"5")[0]
    assert [found.sequence for found in broker.produced] == [0, 2**31 - 2, 1]
    assert broker.logs[0] == [b"1", b"2", b"3", b"4", b"5"]


# -- once --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [HANG_UP_BEFORE, HANG_UP_AFTER, NOT_LEADER, NOT_ENOUGH_REPLICAS])
async def test_what_was_not_acknowledged_is_sent_again_as_it_was(entry: int | str, start: Start) -> None:
    broker, cluster, appender = await start()
    broker.script += [APPEND, entry, entry]
    await asyncio.gather(*rows(appender, b"1", b"2"))
    sent = rows(appender, b"3", b"4")
    await until(lambda: len(broker.produced) > 1)
    sent += rows(appender, b"5")
    await asyncio.gather(*sent)
    assert broker.logs[0] == [b"1", b"2", b"3", b"4", b"5"]
    assert len(set(broker.produced[1:4])) == 1
    assert [found.sequence for found in broker.produced] == [0, 2, 2, 2, 4]
    assert (broker.producer_ids, cluster.refreshed) == (1, 2)


async def test_a_duplicate_is_in_the_log(start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [HANG_UP_AFTER, DUPLICATE_SEQUENCE_NUMBER]
    await rows(appender, b"1")[0]
    await rows(appender, b"2")[0]
    assert broker.logs[0] == [b"1", b"2"]


async def test_an_attempt_without_an_answer_leaves_time_for_another(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setattr(row_appender, "ATTEMPT_SHARE", 0.1)

    broker, _, appender = await start()
    broker.script += [NEVER_ANSWER]
    await rows(appender, b"1")[0]
    assert broker.logs[0] == [b"1"]
    assert len(broker.produced) == len(broker.connections) == 2


async def test_a_leader_that_moves(start: Start) -> None:
    broker, cluster, appender = await start()
    other = await replica_of(broker, cluster, appender)
    broker.script += [NOT_LEADER]
    cluster.moved = 2
    await asyncio.gather(*rows(appender, b"2", b"3"))
    assert (broker.logs[0], other.logs[0]) == ([b"1"], [b"2", b"3"])
    assert broker.produced[-1] == other.produced[0]
    await other.stop()


async def test_a_silent_leader_is_left_once_another_broker_leads(start: Start) -> None:
    broker, cluster, appender = await start(timeout_s=1_000_000)
    other = await replica_of(broker, cluster, appender)
    broker.script += [NEVER_ANSWER]
    sent = rows(appender, b"2")
    await until(lambda: len(broker.produced) == 2)
    advance(SLOW_RESPONSE_S)  # the metadata still names it as the leader
    await until(lambda: cluster.refreshed == 1)
    cluster.moved = 2
    advance(SLOW_RESPONSE_S)
    await sent[0]
    assert other.logs[0] == [b"2"]
    assert broker.produced[-1] == other.produced[0]
    await other.stop()


async def test_a_broker_that_has_another_address_now(start: Start) -> None:
    broker, cluster, appender = await start()
    await rows(appender, b"1")[0]
    await broker.stop()
    broker.port = 0
    await broker.start()
    cluster.moved = 1
    await rows(appender, b"2")[0]
    assert broker.logs[0] == [b"1", b"2"]


async def test_an_outage_is_a_line_when_it_begins_and_one_when_it_ends(
    caplog: pytest.LogCaptureFixture, start: Start
) -> None:
    with caplog.at_level(logging.WARNING, row_appender.__name__):
        broker, _, appender = await start()
        broker.script += [NOT_LEADER, HANG_UP_BEFORE, NOT_ENOUGH_REPLICAS]
        await asyncio.gather(*rows(appender, b"1", b"2"))
        broker.script += [APPEND, NOT_LEADER]
        for value in (b"3", b"4"):
            await rows(appender, value)[0]
    began = f"{TOPIC}-0: failed to append rows; retrying: the broker responded with NotLeaderForPartitionError"
    lines = [line.partition(" after ")[0] for line in caplog.messages]
    assert lines == 2 * [began, f"{TOPIC}-0: rows can be appended again"]


async def test_a_partition_that_nobody_leads_for_a_while(start: Start) -> None:
    broker, cluster, appender = await start()
    cluster.lead(-1)
    sent = rows(appender, b"1")
    await until(lambda: cluster.refreshed > 1)
    cluster.moved = 1
    await sent[0]
    assert broker.logs[0] == [b"1"]


# -- the brokers' clock ------------------------------------------------------------------------------------------------


async def test_the_brokers_time_goes_on_whatever_is_made_of_our_clock(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    broker, _, appender = await start()
    ours = time.time
    broker.now_ms = lambda: int(ours() * 1000)
    await rows(appender, b"1")[0]
    before = appender.now_ms()
    monkeypatch.setattr(time, "time", lambda: ours() - 20)
    assert appender.now_ms() >= before


async def test_a_batch_that_was_sent_twice_was_appended_by_either_of_the_two(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    now_ms = 1_000_000

    def broker_ms() -> int:
        """The answer is lost: the next attempt comes much later."""
        nonlocal now_ms
        now_ms += 9_000
        return now_ms - 9_000

    broker, _, appender = await start()
    monkeypatch.setattr(row_appender, "local_ms", lambda: now_ms)
    broker.now_ms = lambda: now_ms
    await rows(appender, b"1")[0]
    broker.now_ms = broker_ms
    broker.script += [HANG_UP_AFTER]
    assert await rows(appender, b"2")[0] == 1_000_000
    assert (broker.logs[0], appender.now_ms()) == ([b"1", b"2"], 1_009_000)


# -- given up ----------------------------------------------------------------------------------------------------------


async def test_after_a_batch_whose_fate_is_not_known_comes_a_new_epoch(start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [APPEND, *[HANG_UP_AFTER] * 10_000]
    await rows(appender, b"1")[0]
    (given_up,) = rows(appender, b"2")
    await until(lambda: len(broker.produced) > 1)
    advance(TIMEOUT_S)
    assert f"not durable within {TIMEOUT_S:g} s" in await problem_of(given_up)
    await until(lambda: appender._queues[TOPIC, 0].task is None)
    broker.script.clear()
    await rows(appender, b"3")[0]
    assert broker.logs[0] == [b"1", b"2", b"3"]
    last = next(found for found in broker.produced if found.rows == (b"3",))
    assert (last.epoch, last.sequence, broker.producer_ids) == (1, 0, 1)


async def test_a_batch_that_was_given_up_does_not_come_after_those_that_followed(start: Start) -> None:
    broker, _, appender = await start()
    broker.lost_rows.add(b"2")
    await rows(appender, b"1")[0]
    (late,) = rows(appender, b"2")
    await until(lambda: len(broker.produced) > 1)
    advance(TIMEOUT_S)
    await problem_of(late)
    await rows(appender, b"3")[0]
    given_up = next(found for found in broker.produced if found.rows == (b"2",))
    assert broker.append(given_up) == INVALID_PRODUCER_EPOCH
    assert broker.logs[0] == [b"1", b"3"]


async def test_after_the_last_epoch_comes_a_new_producer_id(start: Start) -> None:
    broker, _, appender = await start()
    await rows(appender, b"1")[0]
    appender._queues[TOPIC, 0]._producer = (1_001, row_appender.MAX_EPOCH)
    broker.script += [MESSAGE_TOO_LARGE]
    await problem_of(rows(appender, b"2")[0])
    await rows(appender, b"3")[0]
    assert broker.produced[-1][:4] == (0, 1_002, 0, 0)


async def test_a_row_whose_time_is_over_before_it_was_sent_is_not_sent(start: Start) -> None:
    broker, _, appender = await start()
    answer = asyncio.Event()
    broker.script += [answer]
    first = rows(appender, b"1")[0]
    await until(lambda: len(broker.produced) == 1)
    second, third = rows(appender, b"2", b"3")
    queue = appender._queues[TOPIC, 0]
    queue._on_timeout(queue._rows[0])
    assert "not durable" in await problem_of(second)
    answer.set()
    await asyncio.gather(first, third)
    assert broker.logs[0] == [b"1", b"3"]


async def test_each_row_has_its_own_time(start: Start) -> None:
    broker, cluster, appender = await start()
    cluster.lead(-1)
    first = rows(appender, b"0")[0]
    await until(lambda: cluster.refreshed > 0)
    advance(TIMEOUT_S / 4)
    early = rows(appender, b"1")[0]
    advance(TIMEOUT_S / 2)
    late = rows(appender, b"2")[0]
    advance(TIMEOUT_S / 4)
    assert "partition requests-0 has no leader" in await problem_of(first)
    tried = cluster.refreshed
    await until(lambda: cluster.refreshed > tried)
    advance(TIMEOUT_S / 4)
    await problem_of(early)  # it is on its way with the late one
    assert not late.done()
    cluster.lead(1)
    await late
    assert broker.logs[0][-1] == b"2"


@pytest.mark.parametrize("code", [MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, 87, -1])
async def test_a_batch_that_is_refused_concerns_no_other(code: int, start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [APPEND, code]
    sent = rows(appender, b"1")
    await until(lambda: len(broker.produced) == 1)
    sent += rows(appender, b"2", b"3")
    await until(lambda: len(broker.produced) == 2)
    sent += rows(appender, b"4")
    problems = await asyncio.gather(*sent, return_exceptions=True)
    assert [type(problem) for problem in problems] == [
        int, JobUnavailableError, JobUnavailableError, int
    ]  # fmt: skip
    assert broker.logs[0] == [b"1", b"4"]


# -- the producer id ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED]
)
async def test_a_producer_id_that_the_broker_does_not_know_is_replaced(code: int, start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [APPEND, code]
    await rows(appender, b"1")[0]
    await asyncio.gather(*rows(appender, b"2", b"3"))
    await rows(appender, b"4")[0]
    assert broker.logs[0] == [b"1", b"2", b"3", b"4"]
    assert [found[1:4] for found in broker.produced] == [(1_001, 0, 0), (1_001, 0, 1), (1_002, 0, 0), (1_002, 0, 2)]


async def test_but_not_when_that_could_append_the_batch_twice(start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [HANG_UP_AFTER, UNKNOWN_PRODUCER_ID]
    assert "UnknownProducerId" in await problem_of(rows(appender, b"1")[0])
    await rows(appender, b"2")[0]
    assert broker.logs[0] == [b"1", b"2"]
    assert broker.produced[-1][1:4] == (1_001, 1, 0)


async def test_a_producer_id_that_is_not_to_be_had_yet(start: Start) -> None:
    broker, _, appender = await start()
    broker.init_errors += [COORDINATOR_LOAD_IN_PROGRESS]
    await rows(appender, b"1")[0]
    assert broker.logs[0] == [b"1"]


async def test_a_producer_id_that_is_not_for_us(start: Start) -> None:
    broker, _, appender = await start()
    broker.init_errors += [CLUSTER_AUTHORIZATION_FAILED]
    assert "no producer id" in await problem_of(rows(appender, b"1")[0])
    assert broker.produced == []


# -- limits, and the end -----------------------------------------------------------------------------------------------


async def test_too_much_that_waits_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.setattr(row_appender, "MAX_PENDING_BYTES", 3 * row_appender.ROW_BYTES)

    broker, _, appender = await start()
    answer = asyncio.Event()
    broker.script += [answer]
    sent = rows(appender, b"1", b"2")
    await until(lambda: len(broker.produced) == 1)
    with pytest.raises(JobUnavailableError, match="bytes of requests are pending"):
        appender.append(TOPIC, b"key", b"3")
    answer.set()
    await asyncio.gather(*sent)
    await rows(appender, b"4")[0]
    assert broker.logs[0] == [b"1", b"2", b"4"]


async def test_a_topic_that_is_not_there(start: Start) -> None:
    _, __, appender = await start()
    with pytest.raises(JobUnavailableError, match="is the job running"):
        appender.append("another", b"key", b"1")
    assert await appender.has_topics([TOPIC])
    assert not await appender.has_topics([TOPIC, "another"])


async def test_a_row_that_nobody_waits_for_any_more_is_sent_all_the_same(start: Start) -> None:
    broker, _, appender = await start()
    rows(appender, b"1")[0].cancel()
    await rows(appender, b"2")[0]
    assert broker.logs[0] == [b"1", b"2"]


async def test_what_waits_is_sent_before_the_end(start: Start) -> None:
    broker, _, appender = await start()
    broker.script += [HANG_UP_BEFORE]
    sent = rows(appender, *NUMBERS)
    await appender.close()
    assert broker.logs[0] == list(NUMBERS)
    await asyncio.gather(*sent)
    with pytest.raises(JobUnavailableError, match="shutting down"):
        appender.append(TOPIC, b"key", b"late")
    assert len(broker.connections) == 2
    await until(lambda: all(connection.transport is None for connection in broker.connections))


@pytest.mark.parametrize("is_connected", [True, False])
async def test_the_end_does_not_wait_for_ever(
    is_connected: bool, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setattr(row_appender, "CLOSE_TIMEOUT_S", 0.05)

    broker, _, appender = await start()
    if is_connected:
        broker.script += [NEVER_ANSWER]
    else:
        await broker.stop()
    sent = rows(appender, *NUMBERS)
    await appender.close()
    assert {await problem_of(row) for row in sent} == {"the gateway is shutting down"}


async def test_an_answer_that_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start: Start
) -> None:
    """The rows behind it are sent."""
    with caplog.at_level(logging.ERROR):
        broker, _, appender = await start()
        produce = row_appender._PartitionQueue._produce

        async def broken(*_: object) -> int:
            monkeypatch.setattr(row_appender._PartitionQueue, "_produce", produce)
            raise IndexError("no answer about the partition")

        monkeypatch.setattr(row_appender._PartitionQueue, "_produce", broken)
        assert "no answer about" in await problem_of(rows(appender, b"1")[0])
        await rows(appender, b"2")[0]
        assert broker.logs[0] == [b"2"]
    assert "the appender abandoned rows" in caplog.text
