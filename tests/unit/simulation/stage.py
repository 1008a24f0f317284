"""A simulated job, without faults, for named scenarios: what happens is said by the test."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sharegroup.storage.schemas import DELIVERY_LOG
from tests.simulation.administrators import Administrator
from tests.simulation.checkpoint_folder import CheckpointFolder
from tests.simulation.job.job_adapter import NAMES
from tests.simulation.job.job_host import JobHost
from tests.simulation.job.job_sources import use_virtual_time
from tests.simulation.judges.judge import Violation
from tests.simulation.judges.last_judgement import judge_at_the_end
from tests.simulation.members.row_member import Habits, RowMember
from tests.simulation.world import make_world

TOPIC = "orders"
LOCK_MS = 15_000
_CONFIG = {
    "job": {"request.topic.partitions": 2, "log.idle.poll.interval.ms": 10_000},
    "group": {"group.share.record.lock.duration.ms": LOCK_MS, "group.share.session.timeout.ms": 60_000},
}


class Stage:
    """A running job, and what a test does with it; `run` lets seconds pass."""

    def __init__(self, seed: int, partitions: int = 1, faults: Collection[str] = ()) -> None:
        self.world = make_world(seed, 1.0, faults, keep_trace=True, config=_CONFIG)
        use_virtual_time(self.world.clock)
        self.kafka = self.world.kafka
        self.kafka.create_topic(TOPIC, partitions)
        self.host = JobHost(self.world)
        self.host.start()
        self._groups: list[str] = []
        self.run(10)
        assert self.host.running is not None

    def run(self, seconds: float) -> None:
        """Let seconds of virtual time pass."""
        self.world.clock.run_until(self.world.clock.now_ms + 1000 * seconds)

    def produce(self, count: int, partition: int = 0) -> None:
        """Append records in one batch."""
        self.kafka.append(TOPIC, partition, [(None, b"record")] * count)

    def member(self, name: str, group_id: str, work_ms: int = 50) -> RowMember:
        """One that accepts all it gets, after a while; not started."""
        self._know(group_id)
        habits = Habits(max_records=500, work_ms=(work_ms, work_ms), release=0, reject=0, gives_back=0)
        return RowMember(self.world, name, group_id, (TOPIC,), habits)

    def administrator(self, group_id: str) -> Administrator:
        """An administrator of a group."""
        self._know(group_id)
        return Administrator(self.world, group_id)

    def group_from_the_start(self, group_id: str, work_ms: int = 50) -> RowMember:
        """A member of a group with `earliest`, which joins the moment that its config was answered."""
        member = self.member(f"{group_id}-member", group_id, work_ms)
        self.administrator(group_id).set_configs({"share.auto.offset.reset": "earliest"}, lambda ok: member.start())
        return member

    def kill_job(self, without_checkpoint: bool = False) -> None:
        """As by SIGKILL; it is started again within 20 seconds."""
        if without_checkpoint:
            self.host._checkpoints = {name: CheckpointFolder() for name in NAMES}
        for job in self.host.jobs:
            job.kill("by the test")

    def said(self, text: str) -> int:
        """How many lines of the trace have a text."""
        return sum(text in line.text for line in self.world.trace.lines)

    def log(self) -> list[dict[str, Any]]:
        """The rows of `delivery_log`."""
        return self.world.tables.rows(DELIVERY_LOG)

    def violations(self) -> list[Violation]:
        """What the judge says now."""
        judge_at_the_end(self.world, self.host, self._groups, (TOPIC,))
        return self.world.judge.violations

    def _know(self, group_id: str) -> None:
        if group_id not in self._groups:
            self._groups.append(group_id)
