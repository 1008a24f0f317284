"""A Spark job with `DeltaSink`, by the real member logic: each record is in its table once, wherever it dies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from sharegroup.member.member_logic import MemberLogic
from tests.params import thorough
from tests.simulation.judges.sink_judge import RULE
from tests.simulation.members import simulated_sink
from tests.simulation.spark.spark_fleet import SparkFleet
from tests.simulation.spark.spark_member import SparkMember
from tests.simulation.spark.spark_process import SparkHabits
from tests.simulation.spark.spark_query import POINTS
from tests.unit.simulation.stage import LOCK_MS, TOPIC, Stage

Scenario = Callable[["SparkStage"], None]
GROUP = "group-1"
QUICK = SparkHabits(max_records=500, work_ms=(500, 500))
SLOW = SparkHabits(max_records=500, work_ms=(20_000, 20_000), max_processing_ms=5_000)


class SparkStage(Stage):
    """With Spark members, which all append to one table."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.fleet = SparkFleet(self.world)
        self.administrator(GROUP).set_configs({"share.auto.offset.reset": "earliest"})
        self.produce(10)
        self.run(3)

    def spark(self, name: str, habits: SparkHabits = QUICK) -> SparkMember:
        return self.fleet.member(name, GROUP, (TOPIC,), habits)

    def until(self, happens: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if happens():
                return
            self.run(0.1)
        raise AssertionError("it does not happen")

    def each_once(self) -> Counter[int]:
        """What is to be there in the end."""
        return Counter(range(self.kafka.log(TOPIC, 0).log_end_offset))

    def let_die(self, member: SparkMember, point: str) -> None:
        """Let it die at a point of its first batch, started if it is not; nobody starts it again."""
        member.start(point)
        self.until(lambda: not member.alive)
        member.die()

    def appended(self) -> Counter[int]:
        """How often each offset is in the table."""
        return Counter({offset: len(by) for (_, offset), by in self.fleet.place(GROUP).sink.rows.items()})


@pytest.fixture
def stage() -> SparkStage:
    return SparkStage(8)


@pytest.mark.parametrize(
    ("first", "second"),
    [*((point, point) for point in POINTS), *thorough(*itertools.permutations(POINTS, 2))],
)
def test_a_member_that_dies_twice_appends_each_record_once(stage: SparkStage, first: str, second: str) -> None:
    member = stage.spark("member")
    for point in (first, second):
        stage.let_die(member, point)
        stage.produce(10)
    member.start()
    stage.run(150)
    assert (stage.violations(), stage.appended()) == ([], stage.each_once())


def a_second_run_has_more(stage: SparkStage) -> None:
    """Others have the first range of a batch while its second run has the other; the third run has both."""
    member = stage.spark("member", SparkHabits(work_ms=(500, 500), starts_ms=(5_000, 5_000)))  # it fetches before
    other = stage.spark("other", SparkHabits(max_records=5, work_ms=(500, 500)))
    member.start("planned")
    stage.run(2)
    stage.produce(10)  # another range of the same batch
    stage.let_die(member, "planned")
    stage.run(LOCK_MS / 1000 + 1)
    stage.let_die(other, "begun")
    stage.let_die(member, "appended")
    stage.run(LOCK_MS / 1000 + 1)
    member.start()


def it_comes_without_its_checkpoint(stage: SparkStage) -> None:
    member = stage.spark("member")
    stage.let_die(member, "appended")
    member.remove_checkpoint()
    member.start()


def it_comes_with_its_checkpoint(stage: SparkStage) -> None:
    member = stage.spark("member")
    stage.let_die(member, "appended")
    member.start()


def it_works_too_long(stage: SparkStage) -> None:
    """Beyond `max_processing_ms`, and another member gets the records."""
    slow = stage.spark("slow", SLOW)
    slow.start()
    stage.until(lambda: stage.said("begins batch") == 1)
    slow.leave()
    stage.spark("quick").start()


def it_stands_still(stage: SparkStage) -> None:
    """Beyond its locks, and another member gets the records."""
    still = stage.spark("still", SparkHabits(work_ms=(3_000, 3_000)))
    still.start()
    stage.until(lambda: stage.said("begins batch") == 1)
    still.pause(40_000)
    still.leave()
    stage.spark("quick").start()


def it_has_released_and_nobody_can_be_asked(stage: SparkStage) -> None:
    """Its handler failed, others have got the records, and the batch is run again in a group without renewals."""
    stage.administrator(GROUP).set_configs({"share.renew.acknowledge.enable": "false"})
    stage.run(3)
    member = stage.spark("member", SparkHabits(fails=1.0, starts_ms=(3_000, 3_000)))
    member.start("acknowledged")
    stage.run(1.5)
    stage.spark("other", SparkHabits(work_ms=(8_000, 8_000))).start()
    stage.let_die(member, "acknowledged")
    member.habits = SparkHabits(work_ms=(1_000, 1_000), starts_ms=(500, 500))
    member.start()


def it_leaves(stage: SparkStage) -> None:
    """What it works on is finished first."""
    member = stage.spark("member", SparkHabits(work_ms=(9_000, 9_000)))
    member.start()
    stage.until(lambda: stage.said("begins batch") == 1)
    member.leave()


SCENARIOS = (
    a_second_run_has_more,
    it_comes_without_its_checkpoint,
    it_comes_with_its_checkpoint,
    it_works_too_long,
    it_stands_still,
    it_has_released_and_nobody_can_be_asked,
    it_leaves,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_record_is_in_the_table_once(stage: SparkStage, scenario: Scenario) -> None:
    scenario(stage)
    stage.run(150)
    assert (stage.violations(), stage.appended()) == ([], stage.each_once())


@pytest.mark.parametrize("scenario", [it_works_too_long, it_stands_still], ids=lambda scenario: scenario.__name__)
def test_who_has_lost_its_locks_appends_nothing(stage: SparkStage, scenario: Scenario) -> None:
    scenario(stage)
    stage.run(150)
    assert stage.said("LocksLostError") == 1


def test_a_record_put_into_a_gap_of_a_running_batch_breaks_no_promise(stage: SparkStage) -> None:
    stage.kafka.append(TOPIC, 0, [(None, b"record")], holes=1)
    member = stage.spark("member", SparkHabits(work_ms=(5_000, 5_000)))
    member.start()
    stage.until(lambda: stage.said("begins batch") == 1)
    stage.kafka.elect_uncleanly(TOPIC, 0, 1, 10)
    stage.produce(2)
    stage.run(30)
    assert (stage.violations(), stage.appended()) == ([], Counter(range(11)))


# -- the judge finds what is wrong -------------------------------------------------------------------------------------


def one_transaction_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(simulated_sink, "transaction_id", lambda batch: batch.query_id)


def runs_of_before_are_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        simulated_sink, "ranges_delivered_before", lambda batch: [r for r in batch.ranges if r.delivery_count > 1]
    )


def deliveries_of_before_are_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(simulated_sink, "ranges_delivered_before", lambda batch: batch.ranges if batch.is_rerun else [])


def locks_are_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemberLogic, "holds_batch", lambda logic, now_ms: True)


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (one_transaction_for_all_runs, a_second_run_has_more),
        (runs_of_before_are_not_looked_up, it_comes_with_its_checkpoint),
        (deliveries_of_before_are_not_looked_up, it_comes_without_its_checkpoint),
        (locks_are_not_asked_for, it_works_too_long),
    ],
    ids=lambda given: given.__name__,
)
def test_a_planted_defect_is_found(
    monkeypatch: pytest.MonkeyPatch, stage: SparkStage, plant: Callable[[pytest.MonkeyPatch], None], scenario: Scenario
) -> None:
    plant(monkeypatch)
    scenario(stage)
    stage.run(150)
    assert RULE in {violation.rule for violation in stage.violations()}
