"""Rows on their way from a gateway to the simulated Kafka."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.gateway.job_client.row_appender import JobUnavailableError
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_appender import SimulatedAppender
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class Appending:
    """An appender with a clock that is an hour ahead, and what is in the log."""

    def __init__(self, seed: int = 1, **weather: float) -> None:
        self.clock = Scheduler(seed)
        self.kafka = SimulatedKafka(self.clock, Trace(self.clock))
        self.kafka.create_topic("rows", 1)
        self.loop = VirtualLoop(self.clock)
        self.skew_ms = 3_600_000
        self.weather = Weather(**weather)  # type: ignore[arg-type]
        self.appender = SimulatedAppender(
            self.clock, self.kafka, self.weather, self.loop, None, lambda: self.clock.now_ms + self.skew_ms, 20.0,  # type: ignore[arg-type]
        )  # fmt: skip

    def append(self, *values: bytes) -> list[asyncio.Future[int]]:
        return [self.appender.append("rows", b"k", value) for value in values]

    def run(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_ms + seconds * 1000)

    @property
    def log(self) -> list[bytes]:
        return [record.value for _, record in self.kafka.log("rows", 0).records(0)]


def test_rows_are_appended_in_order_and_tell_the_brokers_time() -> None:
    appending = Appending(slow_chance=0)
    rows = appending.append(b"1", b"2", b"3")
    appending.run(1)
    batches = appending.kafka.log("rows", 0).batches
    assert [[record.value for record in batch.records] for batch in batches] == [[b"1"], [b"2", b"3"]]
    assert [row.result() for row in rows] == [batches[0].append_ms, batches[1].append_ms, batches[1].append_ms]
    assert abs(appending.appender.now_ms() - appending.clock.now_ms) < 20


@pytest.mark.parametrize("seed", range(20))
def test_rows_whose_answers_are_lost_are_there_once_and_in_order(seed: int) -> None:
    appending = Appending(seed, slow_chance=0, lost_request=0.2, lost_answer=0.2)
    rows = []
    for number in range(50):
        rows += appending.append(b"%d" % number)
        appending.run(1)
    appending.run(60)
    there = [int(value) for value in appending.log]
    known = [number for number, row in enumerate(rows) if row.exception() is None]
    assert there == sorted(set(there))
    assert set(known) <= set(there)


def test_a_row_that_is_not_durable_in_time_is_given_up() -> None:
    appending = Appending(slow_chance=0, lost_request=1.0)
    [row] = appending.append(b"1")
    appending.run(25)
    assert isinstance(row.exception(), JobUnavailableError)
    assert appending.log == []


def test_a_row_is_sent_though_nobody_waits_for_it_any_more() -> None:
    appending = Appending(slow_chance=0)
    for row in appending.append(b"1", b"2"):
        row.cancel()
    appending.run(1)
    assert appending.log == [b"1", b"2"]


def test_what_is_on_its_way_arrives_when_its_process_is_killed() -> None:
    appending = Appending(slow_chance=0)
    appending.append(b"sent", b"waits")
    appending.appender.kill()
    appending.loop.kill()
    appending.run(30)
    assert appending.log == [b"sent"]
    with pytest.raises(JobUnavailableError):
        appending.append(b"late")
