"""Named situations in which a promise was once broken, each played by itself in virtual time."""

from __future__ import annotations

import pytest

from tests.unit.simulation.stage import LOCK_MS, TOPIC, Stage


@pytest.mark.parametrize("seed", range(2))
def test_a_config_is_in_force_when_it_was_answered(seed: int) -> None:
    """Groups set `earliest`, and their members join the moment that it was answered: nothing is passed over."""
    stage = Stage(seed)
    stage.produce(10)
    for number in range(10):
        stage.group_from_the_start(f"group-{number}")
        stage.run(0.3)
    stage.run(30)
    assert stage.violations() == []
    began: dict[str, int] = {}
    for row in stage.log():
        began.setdefault(row["group_id"], row["first_offset"])
    assert began == {f"group-{number}": 0 for number in range(10)}


def test_a_topic_made_again_is_another_one() -> None:
    stage = Stage(1)
    stage.group_from_the_start("group-1", work_ms=60_000)
    stage.produce(10)
    stage.run(5)
    stage.kafka.delete_topic(TOPIC)
    stage.run(1)
    stage.kafka.create_topic(TOPIC, 1)
    stage.produce(4)
    stage.run(120)
    new_id = stage.kafka.topics[TOPIC].topic_id
    fetched = [(r["first_offset"], r["last_offset"]) for r in stage.log() if r["topic_id"] == new_id]
    ended = [(r["first_offset"], r["last_offset"]) for r in stage.log() if r["cause"] == "topic_deleted"]
    assert fetched[0] == (0, 3)
    assert ended == [(0, 9)]
    assert stage.host.running is not None


def test_an_acknowledgement_after_its_lock_is_refused_and_the_next_holder_keeps_the_records() -> None:
    """The job is away while the lock ends and the acknowledgement is appended."""
    stage = Stage(2)
    late = stage.group_from_the_start("group-1", work_ms=LOCK_MS + 5_000)
    stage.produce(10)
    stage.run(2)
    stage.kill_job()
    stage.run(60)
    assert late.alive
    assert stage.said("refused: INVALID_RECORD_STATE") >= 1
    late.leave()
    stage.member("group-1-quick", "group-1").start()
    stage.run(60)
    assert stage.violations() == []


def test_an_older_checkpoint_of_the_same_query_is_refused() -> None:
    stage = Stage(3)
    stage.group_from_the_start("group-1")
    stage.produce(5)
    stage.run(20)
    older = {name: folder.copy() for name, folder in stage.host._checkpoints.items()}
    stage.produce(5)
    stage.run(20)
    stage.host._checkpoints = older
    stage.kill_job()
    stage.run(90)
    assert stage.said("exits: StaleCheckpointError") >= 1
    assert stage.host.running is not None
    assert stage.violations() == []


def test_acknowledgements_at_a_start_without_a_checkpoint_do_not_wait_for_a_leader() -> None:
    stage = Stage(4)
    stage.group_from_the_start("group-1", work_ms=3_000)
    stage.produce(10)
    stage.run(2)
    stage.kill_job(without_checkpoint=True)
    stage.kafka.move_leader(TOPIC, 0, -1)
    stage.run(60)
    assert stage.said("acknowledgement of group-1 orders-0 0..9 accept OK") == 1
    stage.kafka.move_leader(TOPIC, 0, 1)
    stage.run(60)
    assert stage.violations() == []


@pytest.mark.parametrize("seed", range(5))
def test_of_two_jobs_that_start_at_once_exactly_one_runs(seed: int) -> None:
    stage = Stage(seed)
    stage.group_from_the_start("group-1")
    stage.produce(10)
    stage.run(5)
    stage.kill_job()
    stage.host._launch(stage.host._checkpoints)
    stage.host._launch(stage.host._checkpoints)
    stage.run(20)
    alive = [job.name for job in stage.host.jobs if job.alive]
    assert len(alive) == 1
    stage.run(120)
    assert stage.violations() == []
