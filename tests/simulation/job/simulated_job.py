"""The job as a process: both queries under the supervisor, from its start until it exits or is killed."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from sharegroup.config import Config
from sharegroup.errors import FencedLeaderError
from sharegroup.job.lead.job_lead import CHECK_INTERVAL_S, JobLead
from sharegroup.job.lead.stale_checkpoint import OPERATOR_SHARDS, Checkpoint
from sharegroup.spark.job.supervisor import Supervisor
from tests.simulation.brokers.broker_answers import BatchBytes, BrokerAnswers, UpstreamFaults
from tests.simulation.checkpoint_folder import CheckpointFolder
from tests.simulation.job import job_adapter
from tests.simulation.job.job_adapter import GROUP_COORDINATOR, NAMES, QueryParts
from tests.simulation.job.simulated_log_poll import SimulatedLogPoll
from tests.simulation.job.simulated_tables import StoreFaults
from tests.simulation.judges.delivery_watch import WATCHED
from tests.simulation.machine_clock import MachineClock, SimulatedJobClock
from tests.simulation.spark.spark_stand_in import MicroBatches, RequestTopic
from tests.simulation.virtual_clock import Action, Event
from tests.simulation.world import GROUP_REQUESTS, JOB_TOPICS, PARTITION_REQUESTS, World

#: The interval at which a supervisor checks queries that do not run.
_WATCH_MS = 500
#: The maximum delay until a source detects a change: a request, a table, a log that grew while members wait.
_SILENT_POLL_MS, _SILENT_AGO_MS = 500, 15_000
#: The maximum duration of a log poll that began before the end of the run.
_LAST_LOOK_MS = 10_000
#: The time after the growth of a log in which it may not have been polled; a source polls once in its interval.
_LOG_LOOKS_MS = 1_000
_REQUEST_MS, _LINGER_MS, _TABLE_MS, _LOG_MS, _POLL_MS = 40, 1_000, 500, 200, 150


class Killed(BaseException):
    """The process is dead; none of its code continues."""


def checkpoint_path(name: str) -> str:
    """Return the path of a query's checkpoint."""
    return f"/checkpoints/{name}"


class _Store(StoreFaults):
    def __init__(self, job: SimulatedJob) -> None:
        self._job = job

    def pause(self, table: str) -> None:
        self._job.pause(2, 15)
        self._job.point("commit")

    def pause_sync(self, table: str) -> None:
        if "power_loss" in self._job.world.faults:
            self._job.pause(1, 10)
            self._job.point("sync")

    def loses_answer(self, table: str) -> bool:
        world = self._job.world
        return world.has("lost_commit") and world.random("lost_commit").random() < 0.01


class SimulatedJob:
    """One process of the job, from its start to its end. `checkpoints` are its folders by query; `on_exit` is called
    with the error that ended it (None: killed)."""

    def __init__(
        self,
        world: World,
        name: str,
        checkpoints: Mapping[str, CheckpointFolder],
        config: Config,
        on_exit: Callable[[SimulatedJob, BaseException | None], None],
    ) -> None:
        self.world, self.name, self.checkpoints, self.config = world, name, checkpoints, config
        self.clock = world.clock
        self.alive = True
        #: The next point at which the process dies: its name, and how many of them pass before.
        self.dies_at: tuple[str, int] | None = None
        #: The next point of a suspension, likewise, and its duration (ms); `on_stand` is called when it begins.
        self.stands_at: tuple[str, int, float] | None = None
        self.on_stand: Callable[[], None] = lambda: None
        self._still_until_ms = 0.0
        self._on_exit = on_exit
        self._random: Random = world.random(f"job {name}")
        self._watching = False
        machine = MachineClock(world, name, lambda: self.alive)
        self._clocks = {query: SimulatedJobClock(machine) for query in NAMES}
        self._lead: JobLead | None = None
        self._have_lost_commits: set[str] = set()
        self.queries: dict[str, StreamingQuery] = {}
        self._supervisor: Supervisor | None = None

    # -- process ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process, as `job.job` does."""
        self.world.trace.add(self.name, "starts")
        try:
            self._take_the_lead()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - a process ends by whatever it is
            self._exit(error)
            return
        self._look()
        self._watch()

    def _take_the_lead(self) -> None:
        tables = self.world.tables
        self.pause(10, 300)
        if tables.recover_torn():
            self._have_lost_commits = set(NAMES)
            self.world.trace.add(self.name, "recovers torn tables")
        checkpoints = {name: self.checkpoint(name) for name in NAMES}
        job_adapter.refuse_stale_checkpoints(tables, checkpoints, checkpoint_path)
        self.pause(10, 300)
        self._lead = job_adapter.make_lead(tables, _Store(self))
        self._lead.acquire_epoch()
        self._supervisor = Supervisor(
            {name: functools.partial(self._start_query, name) for name in NAMES}, self.clock.monotonic_s
        )

    def _look(self) -> None:
        """Check whether another job leads, as `job_lead.LeadWatch` does."""
        if not self.alive or self.is_postponed(self._look):
            return
        assert self._lead is not None
        try:
            self._lead.check()
        except FencedLeaderError as error:
            self._exit(error)
        else:
            self.clock.after(1000 * CHECK_INTERVAL_S, self._look)

    def _exit(self, error: Exception) -> None:
        if self.alive:
            self.alive = False
            self.world.trace.add(self.name, f"exits: {type(error).__name__}: {error}"[:300])
            self._on_exit(self, error)

    def kill(self, why: str) -> None:
        """Kill the process as by SIGKILL. Code nested in the call stack ends when it would continue."""
        if self.alive:
            self.alive = False
            self.world.trace.add(self.name, f"is killed: {why}")
            self._on_exit(self, None)

    def pause(self, least_ms: float, most_ms: float) -> None:
        """Let time pass; raises Killed if the process died meanwhile."""
        self.clock.sleep(self._random.uniform(least_ms, most_ms))
        self._stand()

    def wait(self, until: Callable[[], bool], most_ms: float) -> None:
        """Let time pass until a condition holds, up to a limit; raises Killed if the process died meanwhile."""
        self.clock.run_while(lambda: self.alive and not until(), self.clock.now_ms + most_ms)
        self._stand()

    def point(self, where: str) -> None:
        """Pass a point where the process may die. At some of them Spark writes its checkpoint to the tables' disk."""
        if where in ("computed", "returned") and self.world.tables.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.dies_at is not None and where.startswith(self.dies_at[0]):
            if self.dies_at[1]:
                self.dies_at = self.dies_at[0], self.dies_at[1] - 1
            else:
                self.kill(f"at {where!r}")
        if self.stands_at is not None and where.startswith(self.stands_at[0]):
            point, passes, ms = self.stands_at
            self.stands_at = (point, passes - 1, ms) if passes else None
            if self.stands_at is None:
                self.world.trace.add(self.name, f"stands still for {ms / 1000:g} s at {where!r}")
                self._still_until_ms = self.clock.now_ms + ms
                self.on_stand()
        self._stand()

    @property
    def stands_still(self) -> bool:
        """Return whether the process is suspended, as by SIGSTOP."""
        return self.still_ms > 0

    @property
    def still_ms(self) -> float:
        """Return the remaining time of the suspension."""
        return max(0.0, self._still_until_ms - self.clock.now_us / 1000)

    def is_postponed(self, action: Action) -> bool:
        """Return whether the process is suspended; the action is then called soon after it continues."""
        if self.stands_still:
            self.clock.at(self._still_until_ms + self._random.uniform(1, 1_000 * CHECK_INTERVAL_S), action)
            return True
        return False

    def _stand(self) -> None:
        """Wait for the end of a suspension. Raises Killed if the process is dead."""
        while self.alive and self.stands_still:
            self.clock.run_until(self._still_until_ms)
        if not self.alive:
            raise Killed

    def checkpoint(self, name: str) -> Checkpoint | None:
        """Return the same as `job.checkpoint.read_checkpoint`: query and newest batch, None for an empty checkpoint."""
        folder = self.checkpoints[name]
        if not folder.query_id or self._is_void(name):
            return None
        newest = len(folder.offsets) - 1
        log = folder.offsets[-1].log if folder.offsets else {}
        pinned = {OPERATOR_SHARDS: log["shards"]} if "shards" in log else {}
        return Checkpoint(checkpoint_path(name), folder.query_id, newest, folder.committed, pinned)

    def _is_void(self, name: str) -> bool:
        """Return whether the checkpoint is void, as `job_query.JobQuery.start` determines it."""
        return name in self._have_lost_commits or self.checkpoints[name].is_of_earlier_boot(self.world.boot)

    @property
    def has_run(self) -> bool:
        """Return whether its supervisor has started a query."""
        return bool(self.queries)

    @property
    def is_running(self) -> bool:
        """Return whether both queries run."""
        return self.alive and len(self.queries) == len(NAMES) and all(q.is_active for q in self.queries.values())

    def query_ended(self) -> None:
        """Report the end of a query, which the supervisor detects soon."""
        self.clock.after(_WATCH_MS, self._watch)

    def _watch(self) -> None:
        if not self.alive or self.is_postponed(self._watch):
            return
        if self._watching:  # it starts one query while the other ends
            self.clock.after(_WATCH_MS, self._watch)
            return
        self._watching = True
        assert self._supervisor is not None
        try:
            all_run = self._supervisor.watch()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - a process ends by whatever it is
            self._exit(error)
            return
        finally:
            self._watching = False
        if not all_run:
            self.clock.after(_WATCH_MS, self._watch)

    # -- queries ---------------------------------------------------------------------------------------------------

    def _start_query(self, name: str) -> Any:
        assert self._lead is not None
        self.pause(100, 1_500)
        tables = self.world.tables
        parts = job_adapter.make_query(
            name,
            self.config,
            self.world.kafka,
            tables,
            self,
            _Store(self),
            self._log_poll(),
            lambda: self._drop_checkpoint(name),
            self.checkpoints[name].mark,
            self._clocks[name],
        )
        epoch = self._lead.epoch_for(name)
        steps = parts.run.steps
        checkpoint = self.checkpoint(name)
        parts.run.become_leader(epoch, checkpoint, lambda id_: job_adapter.last_leader_epoch(tables, id_))
        folder = self.checkpoints[name]
        if self._is_void(name) or (checkpoint is not None and checkpoint.changed_settings(self.config.job)):
            self._drop_checkpoint(name)
        self._have_lost_commits.discard(name)
        if not folder.query_id:
            folder.boot = self.world.boot
            folder.query_id = f"query-{self.name}-{name}-{self.clock.happened}"
        steps.query_id = folder.query_id
        folder.mark(steps.newest_batches())
        job_adapter.record_start(tables, name, steps, self.clock.now_ms)
        stream = self.queries[name] = StreamingQuery(self, name, parts)
        self.world.trace.add(self.name, f"{name} leads with epoch {steps.leader_epoch}")
        stream.wake(1)
        return stream

    def _log_poll(self) -> SimulatedLogPoll:
        """Return a poll that takes time in runs with silent leaders, where events during the poll matter."""
        world, random = self.world, self.world.random("look-ups")
        latency_s = (lambda: random.uniform(0.0005, 0.005)) if "silent_leader" in world.faults else (lambda: 0.0)
        answers = BrokerAnswers(world.kafka, random, UpstreamFaults(), BatchBytes(), latency_s, self._metadata_lag_ms)
        return SimulatedLogPoll(
            world.clock, answers, lambda: self.alive, lambda: self.point("looked up"), world.end_ms + _LAST_LOOK_MS
        )

    def _drop_checkpoint(self, name: str) -> None:
        self.point("drop checkpoint")
        self.checkpoints[name].drop()
        self.world.trace.add(self.name, f"drops the checkpoint of {name}")

    def _metadata_lag_ms(self) -> int:
        if "job_topics_grow" in self.world.faults:
            return 0  # a partition unknown to a broker is watched later, and so may be its requests
        random = self.world.random("metadata")
        return random.choice((0, 500, 5_000)) if self.world.has("slow_metadata") else 0


class StreamingQuery:
    """Spark's query. It wakes when its sources may have changed, and runs batches until there is nothing to do."""

    def __init__(self, job: SimulatedJob, name: str, parts: QueryParts) -> None:
        self._job, self.name, self.parts = job, name, parts
        self._failure: BaseException | None = None
        self._running = self._again = False
        self._log_grew_ms = -_LOG_LOOKS_MS
        self._active = True
        self._wake: tuple[float, Event] | None = None
        self._random = job.world.random(f"job {job.name}")
        config = job.config
        self._topic = GROUP_REQUESTS if name == GROUP_COORDINATOR else PARTITION_REQUESTS
        self.micro_batches = MicroBatches(
            job,
            job.world.random("spark"),
            job.checkpoints[name],
            parts.source,
            RequestTopic(
                job,
                job.world.kafka,
                self._topic,
                config.job.max_requests_per_batch,
                job_adapter.key_of(name, config.job.operator_shards),
            ),
            job_adapter.operator_of(name, config),
            parts.run,
        )
        job.world.kafka.listeners.append(self._appended)

    # -- interface of the supervisor -------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Return whether it runs."""
        return self._active and self._job.alive

    @property
    def ended_by(self) -> BaseException | None:
        """Return the error that ended it, if any."""
        return self._failure

    @property
    def batches(self) -> int:
        """Return the number of batches that have run."""
        return self.parts.run.batches

    @property
    def has_responded(self) -> bool:
        """Return True, because a simulated job appends no probe and nothing waits for its report that it runs."""
        return True

    # -- interface of the simulation -------------------------------------------------------------------------------

    def wake(self, delay_ms: float) -> None:
        """Check for changes after a delay, or earlier if that was scheduled before."""
        due = self._job.clock.now_us / 1000 + delay_ms
        if self._wake is not None and self._wake[1].action is not None:
            if self._wake[0] <= due:
                return
            self._wake[1].cancel()
        self._wake = due, self._job.clock.at(due, self._run)

    def _appended(self, topic: str, partition: int) -> None:
        """Wake soon for a change that the source would detect; it polls a log once in its interval."""
        if not self.is_active:
            self._job.world.kafka.listeners.remove(self._appended)
        elif self.name != GROUP_COORDINATOR and topic == GROUP_REQUESTS:
            if self._random.random() < 0.3:  # a source polls all the time, also just before a change
                self.wake(self._random.uniform(1, _POLL_MS))
        elif topic == self._topic:
            lingers = self._random.random() < 0.2  # the next request may be read together with it
            self.wake(self._random.uniform(1, _LINGER_MS if lingers else _REQUEST_MS))
        elif (
            self.name != GROUP_COORDINATOR
            and topic not in JOB_TOPICS
            and (self._running or self.parts.source._handover.read().waiting)
        ):
            self.wake(self._random.uniform(1, _LOG_MS))
            self._log_grew_ms = self._job.clock.now_ms

    def _run(self) -> None:
        if not self.is_active or self._job.is_postponed(self._run):
            return
        if self._running:
            self._again = True
            return
        self._running = True
        try:
            self._run_batches()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - a process ends by whatever it is
            self._failure, self._active = error, False
            self._job.world.trace.add(self._job.name, f"{self.name} ends: {type(error).__name__}: {error}"[:200])
            self._job.query_ended()
            return
        finally:
            self._running = False
        self._wake_at_deadline()

    def _run_batches(self) -> None:
        """Run batches until the changes for which it woke are processed; another poll would find the same."""
        while True:
            self._again = False
            if self.micro_batches.run_next():
                self._check_safe_clock()
                self._tell_others()
            if not (self._again or self.micro_batches.has_unread):
                return

    def _check_safe_clock(self) -> None:
        """Check that all requests appended before the time of a tick were read by earlier batches."""
        folder = self._job.checkpoints[self.name]
        batch_id = folder.commits - 1
        clock_ms, (_, read) = folder.offsets[batch_id].log["clock_ms"], folder.starts(batch_id)
        for partition, log in enumerate(self._job.world.kafka.topic(self._topic).partitions):
            rows = log.records(read.get(partition, 0))
            unread = next((row for row in rows if not log.is_aborted(row[1].offset)), None)
            late_ms = 0 if unread is None else clock_ms - unread[0]
            if unread is not None and late_ms > self._job.world.kafka.most_behind_ms:
                text = f"{self._topic}-{partition}: {unread[1].offset} is unread, and {late_ms} ms older than a tick"
                self._job.world.judge.violate("the safe clock waits for requests", text)

    def _tell_others(self) -> None:
        """Wake the other query, whose source polls the tables of this one."""
        if self.name == GROUP_COORDINATOR:
            other = self._job.queries.get(job_adapter.SHARE_PARTITION)
            if other is not None:
                other.wake(self._random.uniform(1, _TABLE_MS))

    def _wake_at_deadline(self) -> None:
        told = self.parts.source._handover.read()
        now, deadline = told.brokers_ms(self.parts.source._local_ms()), told.deadlines.first_ms
        idle = float(self._job.config.job.log_idle_poll_interval_ms)
        if deadline is not None:
            # A tick requires a safe time beyond the deadline, which is checked a moment later.
            idle = min(idle, max(deadline - now + 2.0, self._tick_poll_ms()))
        if self._may_see_more_soon():
            idle = min(idle, _SILENT_POLL_MS)
        self.wake(idle)

    def _tick_poll_ms(self) -> float:
        """Return the interval of checks for a safe time beyond a deadline, which some faults delay for long."""
        faults = self._job.world.faults
        return 500.0 if "job_transactions" in faults else 100.0 if "silent_leader" in faults else 20.0

    def _may_see_more_soon(self) -> bool:
        """Return whether the last poll may be incomplete: a leader did not respond, or a log was not polled."""
        world = self._job.world
        if "silent_leader" in world.faults and world.kafka.silent_ago_ms < _SILENT_AGO_MS:
            return True
        return world.clock.now_ms - self._log_grew_ms < _LOG_LOOKS_MS and bool(world.faults & WATCHED)
