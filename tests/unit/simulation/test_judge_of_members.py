"""What the judge says when an acknowledgement is refused that came before the end of its lock."""

from __future__ import annotations

import pytest

from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.judges.judge import Judge, Key
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

SESSION_MS = 45_000


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        ("as the member that it is", ["an acknowledgement in time counts"]),
        ("before it left and came back", []),
    ],
)
def test_who_leaves_and_comes_back_relies_on_what_it_has_asked_for_since(asked: str, rules: list[str]) -> None:
    clock = Scheduler(1)
    trace = Trace(clock)
    kafka = SimulatedKafka(clock, trace)
    judge = Judge(clock, trace, kafka)
    topic_id = kafka.create_topic("orders", 1).topic_id
    judge.heartbeat_appended("g", "m", clock.now_ms, SESSION_MS)
    generations = {"before it left and came back": judge.generation("g", "m")}
    judge.session_over("g", "m")
    judge.heartbeat_appended("g", "m", clock.now_ms, SESSION_MS)
    generations["as the member that it is"] = judge.generation("g", "m")

    grant = judge.grant("g", "m", clock.now_ms + 30_000, generations[asked])
    judge.acknowledgement_refused(
        Key("g", "orders", topic_id, 0), "0..4 accept", grant, clock.now_ms, "INVALID_RECORD_STATE"
    )
    assert [violation.rule for violation in judge.violations] == rules
