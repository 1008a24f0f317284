"""Brokers without topic ids: what is promised of topics that are deleted and made again, and that it is judged."""

from __future__ import annotations

import pytest

from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.protocol.topic_ids import derive_topic_id, topic_id_text
from tests.simulation.judges.judge import Key
from tests.simulation.world import NO_TOPIC_IDS, faults_of
from tests.unit.simulation.stage import TOPIC, Stage

ID = topic_id_text(derive_topic_id("simulated", TOPIC))


def made_again(records: int, away_s: float = 1, later_s: float = 100) -> Stage:
    """Ten records are done when the topic is deleted; the next one of its name has so many."""
    stage = Stage(1, faults=(NO_TOPIC_IDS,))
    stage.group_from_the_start("group-1")
    stage.produce(10)
    stage.run(20)
    stage.kafka.delete_topic(TOPIC)
    stage.run(away_s)
    stage.kafka.create_topic(TOPIC, 1)
    stage.produce(records)
    stage.run(later_s)
    return stage


def fetched(stage: Stage) -> list[tuple[str, int, int]]:
    found = [row for row in stage.log() if row["cause"] == "fetch"]
    return [(row["topic_id"], row["first_offset"], row["last_offset"]) for row in found]


def test_a_log_that_ends_too_early_is_read_from_its_start() -> None:
    stage = made_again(4)
    assert fetched(stage) == [(ID, 0, 9), (ID, 0, 3)]
    assert stage.violations() == []


def test_a_topic_that_the_job_has_found_gone_is_read_when_that_is_forgotten() -> None:
    stage = made_again(4, away_s=60, later_s=700)
    assert fetched(stage) == [(ID, 0, 9), (ID, 0, 3)]
    assert stage.violations() == []


def test_nothing_is_promised_of_a_log_that_does_not() -> None:
    stage = made_again(12)
    assert fetched(stage) == [(ID, 0, 9), (ID, 10, 11)]
    assert stage.violations() == []


def test_a_job_that_does_not_look_where_the_log_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManagedPartition, "is_of_another_topic", lambda *_: False)
    assert [violation.rule for violation in made_again(4).violations()] == ["everything is delivered"]


def test_before_anything_was_deleted_all_is_judged() -> None:
    stage = Stage(1, faults=(NO_TOPIC_IDS,))
    key = Key("group-1", TOPIC, ID, 0)
    assert not stage.world.judge.is_in_question(key)
    stage.kafka.delete_topic(TOPIC)
    assert stage.world.judge.is_in_question(key)


def test_a_topic_with_an_id_that_was_deleted_is_judged() -> None:
    stage = Stage(1)
    key = Key("group-1", TOPIC, stage.kafka.topics[TOPIC].topic_id, 0)
    stage.kafka.delete_topic(TOPIC)
    assert not stage.world.judge.is_in_question(key)


def test_one_seed_in_five_has_such_brokers() -> None:
    assert 150 < sum(NO_TOPIC_IDS in faults_of(seed) for seed in range(1_000)) < 250
