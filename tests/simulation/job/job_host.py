"""The host of the job: it starts the job repeatedly and applies the faults."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os

from kafka.errors import KafkaError

from sharegroup.errors import FencedLeaderError
from sharegroup.job.lead.stale_checkpoint import StaleCheckpointError
from tests.simulation.checkpoint_folder import CheckpointFolder
from tests.simulation.job.job_adapter import (
    GROUP_COORDINATOR,
    NAMES,
    SHARE_PARTITION,
    durable_positions,
    has_batch,
    lose_commits,
)
from tests.simulation.job.simulated_job import SimulatedJob, checkpoint_path
from tests.simulation.job.simulated_tables import SPECS
from tests.simulation.judges.state_witness import compare_configs, compare_operator_states
from tests.simulation.world import GROUP_REQUESTS, PARTITION_REQUESTS, World

#: The points at which a job is made to die, and how many of them may pass before.
_POINTS = (
    "planned", "computed", "commit", "returned", "committed", "row sent",
    *(f"{name} {step}" for name in NAMES for step in range(5)),
)  # fmt: skip
#: The mean time between two suspensions, and their duration.
_PAUSED_EVERY_MS, _PAUSES_MS = 500_000, (20_000, 90_000, 300_000)
#: The properties that may change before a batch is repeated.
_CHANGES = ("requests_trimmed", "snapshot_rules")
#: The number of batches that each of a query's tables loses.
_LOST = ((1, 1, 1, 1), (1, 0, 0, 0), (1, 2, 0, 3), (0, 1, 2, 0), (0, 3, 0, 1))
#: The time after which two jobs that were started together have decided which one runs.
_DECIDED_MS = 120_000


class JobHost:
    """The supervision of one job with one checkpoint directory, and the faults of the run."""

    def __init__(self, world: World) -> None:
        self._world, self._clock = world, world.clock
        self._random = world.random("host")
        self.jobs: list[SimulatedJob] = []
        self._checkpoints = _empty()
        self._backups: list[dict[str, CheckpointFolder]] = []
        self._config = world.config
        self._made = 0
        self._start_due = False
        self._without_power: SimulatedJob | None = None
        self.starts = 0

    @property
    def running(self) -> SimulatedJob | None:
        """Return a job with both queries running."""
        return next((job for job in self.jobs if job.is_running and not job.stands_still), None)

    def start(self) -> None:
        """Begin, and schedule the faults of the job."""
        self._start_job()
        for fault, every_ms, action in (
            ("crash", 500_000, self._crash),
            ("old_checkpoint", 600_000, self._back_up),
            ("two_jobs", 900_000, self._second_job),
            ("foreign_write", 1_500_000, self._foreign_write),
            ("power_loss", 400_000, self._power_fails),
            ("lost_commits", 150_000, self._die_between_batches),
            ("lost_commits", 20_000, self._compare_states),
            ("full_disk", 600_000, self._fill_disk),
            ("paused_job", _PAUSED_EVERY_MS, self._pause),
            ("paused_job", 20_000, self._compare_configs),
            *((fault, 150_000, self._die_after_commit) for fault in _CHANGES),
            *((fault, 20_000, self._compare_states) for fault in _CHANGES),
        ):
            if fault in self._world.faults:
                self._repeat(fault, every_ms, action)

    def _repeat(self, fault: str, every_ms: int, action: object) -> None:
        def again() -> None:
            if self._world.has(fault):
                action()  # type: ignore[operator]
                self._clock.after(self._random.expovariate(1 / every_ms), again)

        self._clock.after(self._random.expovariate(1 / every_ms), again)

    # -- starts ----------------------------------------------------------------------------------------------------

    def _start_job(self) -> None:
        self._start_due = False
        if any(job.alive for job in self.jobs):
            return
        self._choose_checkpoint()
        self._launch(self._checkpoints)

    def _launch(self, checkpoints: dict[str, CheckpointFolder]) -> SimulatedJob:
        self._made += 1
        self.starts += 1
        if self._world.has("reshard") and self._random.random() < 0.3:
            changed = self._config.job.model_copy(update={"operator_shards": self._random.choice((1, 2, 3))})
            self._config = dataclasses.replace(self._config, job=changed)
        if self._world.has("snapshot_rules") and self._random.random() < 0.8:
            self._change_snapshot_rules()
        job = SimulatedJob(self._world, f"job {self._made}", checkpoints, self._config, self._exited)
        self.jobs = [*(known for known in self.jobs if known.alive), job]
        self._clock.after(0, job.start)
        return job

    def _change_snapshot_rules(self) -> None:
        before = self._config.coordinator.snapshot_update_records_per_snapshot
        updates = self._random.choice([count for count in (1, 3, 500) if count != before])
        changed = self._config.coordinator.model_copy(update={"snapshot_update_records_per_snapshot": updates})
        self._config = dataclasses.replace(self._config, coordinator=changed)

    def _choose_checkpoint(self) -> None:
        chance = self._random.random()
        if self._world.has("old_checkpoint") and self._backups and chance < 0.3:
            self._checkpoints = {name: folder.copy() for name, folder in self._random.choice(self._backups).items()}
            self._world.trace.add("host", "restores an older checkpoint")
        elif self._world.has("new_checkpoint") and chance > 0.6:
            removed = self._random.choice((NAMES, NAMES, NAMES[:1], NAMES[1:]))
            self._checkpoints = {**self._checkpoints, **{name: CheckpointFolder() for name in removed}}
            self._world.trace.add("host", f"removes the checkpoint of {', '.join(removed)}")

    def _exited(self, job: SimulatedJob, error: BaseException | None) -> None:
        """Restart a killed job (None). Remove a stale checkpoint. Keep a fenced job away while another one runs."""
        if isinstance(error, StaleCheckpointError):
            self._checkpoints = {
                name: CheckpointFolder() if checkpoint_path(name) in str(error) else folder
                for name, folder in self._checkpoints.items()
            }
            self._world.trace.add("host", "removes the checkpoint that was refused")
        if job.has_run and error is not None and os.strerror(errno.ENOSPC) in str(error.__cause__):
            self._world.judge.violate("a full disk is waited out", f"{job.name} ends: {error}")
        if job is self._without_power:
            self._lose_power()
        if self._world.has("lost_commits") and self._random.random() < 0.8:
            self._lose_commits(job)
        if self._world.has("requests_trimmed"):
            self._trim_requests(job)
        delay_ms = self._random.choice((500, 3_000, 20_000))
        if self._world.has("job_away") and self._random.random() < 0.3:
            delay_ms = self._random.randint(60_000, 400_000)
        if isinstance(error, FencedLeaderError) and any(other.alive for other in self.jobs):
            delay_ms += _DECIDED_MS
        self._clock.after(delay_ms, self._start_job)

    def _trim_requests(self, job: SimulatedJob) -> None:
        """Delete the requests of repeated batches, but only if step 2 is durable, because others would be lost.

        A job that another one has replaced may have planned its batch with requests that nobody has processed.
        """
        if self._world.tables.torn_tables():
            return
        for name, folder in job.checkpoints.items():
            batch_id = len(folder.offsets) - 1
            if folder.commits > batch_id or not has_batch(self._world.tables, name, folder.query_id, batch_id):
                continue
            topic = GROUP_REQUESTS if name == GROUP_COORDINATOR else PARTITION_REQUESTS
            if self._world.kafka.has_silent_leader(topic):
                continue
            durable = durable_positions(self._world.tables, name)
            for partition, end in folder.offsets[-1].requests.items():
                with contextlib.suppress(KafkaError):  # its leader is missing or silent
                    self._world.kafka.delete_records(topic, partition, min(end, durable.get(partition, 0)))
            self._world.trace.add("host", f"retention deletes the requests of batch {batch_id} of {name}")

    # -- faults ----------------------------------------------------------------------------------------------------

    def _crash(self) -> None:
        for job in self.jobs:
            if self._random.random() < 0.3:
                job.kill("at any moment")
            elif job.alive:
                job.dies_at = self._random.choice(_POINTS), self._random.choice((0, 0, 3))

    def _pause(self) -> None:
        """Suspend the job at a point while another one takes over; it continues later without knowing that.

        Half of the time it has just committed an administrator's request without responding to it.
        """
        if self._random.random() < 0.5:
            self._pause_at(self._random.choice(_POINTS), self._random.choice((0, 0, 3)))
        elif self._appended not in self._world.kafka.listeners:
            self._world.kafka.listeners.append(self._appended)

    def _appended(self, topic: str, partition: int) -> None:
        if topic != GROUP_REQUESTS:
            return
        log = self._world.kafka.topic(topic).partitions[partition]
        if any(b'"alter_configs"' in record.value for record in log.batches[-1].records):
            self._world.kafka.listeners.remove(self._appended)
            self._pause_at(f"{GROUP_COORDINATOR} 3", 0)

    def _pause_at(self, point: str, passes: int) -> None:
        job = self.running
        if job is None or sum(each.alive for each in self.jobs) > 1 or not self._world.has("paused_job"):
            return
        ms = min(self._random.choice(_PAUSES_MS), self._world.calm_ms - self._clock.now_ms)
        job.stands_at = point, passes, ms
        job.on_stand = lambda: self._take_over(job)

    def _take_over(self, paused: SimulatedJob) -> None:
        checkpoints = self._random.choice((_empty(), {n: folder.copy() for n, folder in self._checkpoints.items()}))

        def launch() -> None:
            if paused.alive and paused.stands_still:
                launched = self._launch(checkpoints)
                self._clock.after(paused.still_ms + _DECIDED_MS, lambda: self._check_one_runs(launched))

        self._clock.after(self._random.uniform(1_000, 15_000), launch)

    def _compare_configs(self) -> None:
        if self.running is not None and "two_jobs" not in self._world.faults:
            compare_configs(self._world, self.running)

    def _die_after_commit(self) -> None:
        """Let the job die when the tables have a batch, so that it is repeated; mostly one of share-partitions."""
        for job in self.jobs:
            if job.alive:
                job.dies_at = f"{self._random.choice((*NAMES, SHARE_PARTITION))} 2", 0

    def _power_fails(self) -> None:
        """Lose power at the moment of a commit, or at any moment."""
        for job in self.jobs:
            if job.alive:
                self._without_power = job
                where = self._random.choice(("sync", "sync", "returned", "committed"))
                job.dies_at = where, self._random.choice((0, 3))
                if self._random.random() < 0.3:
                    job.kill("its machine is without power")
                return

    def _lose_power(self) -> None:
        """Stop the machine of all jobs and start it again."""
        self._without_power = None
        for job in self.jobs:
            job.kill("its machine is without power")
        lost = self._world.tables.lose_power(self._random)
        self._world.boot += 1
        for folder in self._checkpoints.values():
            folder.tear()
        self._world.trace.add("host", f"loses power; commits that were not synced are lost in {lost}")

    def _die_between_batches(self) -> None:
        for job in self.jobs:
            if self._random.random() < 0.5:
                job.dies_at = "committed", self._random.choice((0, 0, 3))
            elif job.is_running and all(query.micro_batches.is_between_batches for query in job.queries.values()):
                job.kill("between batches")

    def _lose_commits(self, job: SimulatedJob) -> None:
        """Remove some of the newest batches of a query's tables, but of the first table none with responses.

        Losing those would make the responses wrong.
        """
        if any(other.alive for other in self.jobs) or self._world.tables.torn_tables():
            return
        for name, folder in job.checkpoints.items():
            lost, batch_id = self._random.choice(_LOST), folder.commits - 1
            if lost[0] and "requests_trimmed" in self._world.faults:
                continue  # its requests may have been deleted
            if batch_id >= 0 and lose_commits(self._world.tables, name, folder.query_id, batch_id, lost):
                self._world.trace.add("host", f"tables of {name} lose their newest batches: {lost}")

    def _fill_disk(self) -> None:
        self._world.tables.is_full = True
        self._world.trace.add("host", "the disk is full")
        self._clock.after(self._random.randint(5_000, 300_000), self._free_disk)

    def _free_disk(self) -> None:
        self._world.tables.is_full = False
        self._world.trace.add("host", "the disk has space")

    def _compare_states(self) -> None:
        """Compare operator and tables between two batches. A job beside another one may be fenced without knowing."""
        if self.running is not None and not {"two_jobs", "paused_job"} & self._world.faults:
            compare_operator_states(self._world, self.running)

    def _back_up(self) -> None:
        self._backups = [*self._backups[-3:], {name: folder.copy() for name, folder in self._checkpoints.items()}]

    def _second_job(self) -> None:
        """Start a job beside a running one, or two jobs together, each with its own checkpoint directory."""
        self._world.trace.add("host", "starts a second job")
        if self._random.random() < 0.5:
            for job in self.jobs:
                job.kill("to be started twice")
            self._launch({name: folder.copy() for name, folder in self._checkpoints.items()})
        launched = self._launch(_empty())
        self._clock.after(_DECIDED_MS, lambda: self._check_one_runs(launched))

    def _check_one_runs(self, launched: SimulatedJob) -> None:
        alive = [job for job in self.jobs if job.alive and not job.stands_still]
        if len(alive) > 1 and alive[-1] is launched:
            names = ", ".join(job.name for job in alive)
            self._world.judge.violate("one job", f"{names} run {_DECIDED_MS} ms after {launched.name} was started")

    def _foreign_write(self) -> None:
        name = self._random.choice(("share_group_state", "share_groups"))
        if name in self._world.tables.torn_tables():
            return
        self._world.tables.write_from_outside(SPECS[name])
        self._world.trace.add("somebody", f"writes to {name}")


def _empty() -> dict[str, CheckpointFolder]:
    return {name: CheckpointFolder() for name in NAMES}
