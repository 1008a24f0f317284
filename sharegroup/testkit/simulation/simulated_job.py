"""The job as a process: both queries under the supervisor, from its start until it exits or is killed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from sharegroup.config import JobConfig
from sharegroup.spark import job_query
from sharegroup.spark.supervisor import Supervisor
from sharegroup.testkit.simulation import job_adapter
from sharegroup.testkit.simulation.checkpoint_folder import CheckpointFolder
from sharegroup.testkit.simulation.job_adapter import GROUP_COORDINATOR, NAMES, QueryParts
from sharegroup.testkit.simulation.job_sources import SimulatedLogPoll
from sharegroup.testkit.simulation.memory_delta import StoreFaults
from sharegroup.testkit.simulation.spark_stand_in import MicroBatches, RequestTopic
from sharegroup.testkit.simulation.virtual_clock import Event
from sharegroup.testkit.simulation.world import GROUP_REQUESTS, JOB_TOPICS, PARTITION_REQUESTS, World

#: How often a supervisor looks after queries that do not run.
_WATCH_MS = 500
#: How late a source sees what it polls for, at most: a request, a table, a log that grew while members wait.
_REQUEST_MS, _TABLE_MS, _LOG_MS, _POLL_MS = 40, 500, 200, 150


class Killed(BaseException):
    """The process is dead: nothing of it goes on."""


class _Store(StoreFaults):
    def __init__(self, job: SimulatedJob) -> None:
        self._job = job

    def pause(self, table: str) -> None:
        self._job.pause(2, 15)
        self._job.point("commit")

    def loses_answer(self, table: str) -> bool:
        world = self._job.world
        return world.has("lost_commit") and world.random("lost_commit").random() < 0.01


class SimulatedJob:
    """See the module. `checkpoints` are its folders by query; `on_exit` is told what ended it (None: killed)."""

    def __init__(
        self,
        world: World,
        name: str,
        checkpoints: Mapping[str, CheckpointFolder],
        config: JobConfig,
        on_exit: Callable[[SimulatedJob, BaseException | None], None],
    ) -> None:
        self.world, self.name, self.checkpoints, self.config = world, name, checkpoints, config
        self.clock = world.clock
        self.alive = True
        #: Where the process is to die next: the name of a point, and how many of them pass before.
        self.dies_at: tuple[str, int] | None = None
        self._on_exit = on_exit
        self._random: Random = world.random(f"job {name}")
        self._watching = False
        self._led_with: dict[str, int] = {}
        self.queries: dict[str, StreamingQuery] = {}
        self._supervisor: Supervisor | None = None

    # -- the process -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let it begin."""
        self._supervisor = Supervisor(
            {name: functools.partial(self._start_query, name) for name in NAMES}, self.clock.monotonic_s
        )
        self.world.trace.add(self.name, "starts")
        self._watch()

    def kill(self, why: str) -> None:
        """As by SIGKILL. What is nested in the call stack ends when it would go on."""
        if self.alive:
            self.alive = False
            self.world.trace.add(self.name, f"is killed: {why}")
            self._on_exit(self, None)

    def now_ms(self) -> int:
        """The process's clock."""
        return self.clock.now_ms

    def pause(self, least_ms: float, most_ms: float) -> None:
        """Let time pass; raises Killed when the process died meanwhile."""
        self.clock.sleep(self._random.uniform(least_ms, most_ms))
        if not self.alive:
            raise Killed

    def point(self, where: str) -> None:
        """A place to die at."""
        if self.dies_at is not None and where.startswith(self.dies_at[0]):
            if self.dies_at[1]:
                self.dies_at = self.dies_at[0], self.dies_at[1] - 1
            else:
                self.kill(f"at {where!r}")
        if not self.alive:
            raise Killed

    def checkpoint_query_id(self, path: str) -> str | None:
        """Of the folder, None for one without a batch."""
        folder = self.checkpoints[path.rsplit("/", 1)[1]]
        return folder.query_id if folder.offsets else None

    def last_leader_epoch(self, query_id: str) -> int:
        """Of the last start of a query."""
        rows = self.world.tables["share_group_job"].read().to_pylist()
        return max((row["leader_epoch"] for row in rows if row["query_id"] == query_id), default=0)

    @property
    def is_running(self) -> bool:
        """Whether both queries run."""
        return self.alive and len(self.queries) == len(NAMES) and all(q.isActive for q in self.queries.values())

    def query_ended(self) -> None:
        """One of them did."""
        self.clock.after(_WATCH_MS, self._watch)

    def _watch(self) -> None:
        if not self.alive or self._watching:
            return
        self._watching = True
        assert self._supervisor is not None
        try:
            all_run = self._supervisor.watch()
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - a process ends by whatever it is
            self.alive = False
            self.world.trace.add(self.name, f"exits: {type(error).__name__}: {error}"[:300])
            self._on_exit(self, error)
            return
        finally:
            self._watching = False
        if not all_run:
            self.clock.after(_WATCH_MS, self._watch)

    # -- the queries -----------------------------------------------------------------------------------------------

    def _start_query(self, name: str) -> Any:
        self.pause(100, 1_500)
        stream = StreamingQuery(self, name)
        parts = job_adapter.make_query(
            name,
            self.config,
            self.world.kafka,
            self.world.tables,
            self,
            _Store(self),
            SimulatedLogPoll(self.world.kafka, self._metadata_lag_ms, lambda: self.pause(900, 1_100)),
            stream.start,
        )
        stream.parts = parts
        job_query.checkpoint_query_id = lambda process, path: process.checkpoint_query_id(path)
        job_query.last_leader_epoch = lambda path, query_id: self.last_leader_epoch(query_id)
        try:
            parts.query.start(self._led_with.get(name))
        finally:
            if parts.query.leader_epoch:
                self._led_with[name] = parts.query.leader_epoch
        self.world.trace.add(self.name, f"{name} leads with epoch {parts.query.leader_epoch}")
        self.queries[name] = stream
        job_adapter.record_start(self.world.tables, parts.query, self.clock.now_ms)
        stream.wake(1)
        return parts.query

    def _metadata_lag_ms(self) -> int:
        random = self.world.random("metadata")
        return random.choice((0, 500, 5_000)) if self.world.has("slow_metadata") else 0


class StreamingQuery:
    """Spark's query: it is woken when its sources may have something, and runs batches until there is nothing."""

    def __init__(self, job: SimulatedJob, name: str) -> None:
        self._job, self.name = job, name
        self._folder = job.checkpoints[name]
        self._failure: BaseException | None = None
        self._running = self._again = False
        self._active = True
        self._wake: tuple[float, Event] | None = None
        self._random = job.world.random(f"job {job.name}")
        self.parts: QueryParts
        self.batches: MicroBatches
        self.id = ""

    # -- Spark's ---------------------------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs."""
        return self._active and self._job.alive

    def exception(self) -> BaseException | None:
        """What ended it."""
        return self._failure

    def stop(self) -> None:
        """End it."""
        self._active = False

    # -- the simulation's ------------------------------------------------------------------------------------------

    def start(self, on_batch: Any, positions: Mapping[int, int]) -> StreamingQuery:
        """Spark's `start`."""
        job, config = self._job, self._job.config
        is_group = self.name == GROUP_COORDINATOR
        topic = GROUP_REQUESTS if is_group else PARTITION_REQUESTS
        if not self._folder.query_id:
            self._folder.query_id = f"query-{job.name}-{self.name}-{job.clock.happened}"
        self.id = self._folder.query_id
        self.batches = MicroBatches(
            job,
            job.world.random("spark"),
            job.now_ms,
            self._folder,
            self.parts.source,
            RequestTopic(
                job.world.kafka,
                topic,
                config.job.max_requests_per_batch,
                job_adapter.key_of(self.name, config.job.operator_shards),
            ),
            job_adapter.operator_of(self.name, config),
            on_batch,
            positions,
        )
        job.world.kafka.listeners.append(self._appended)
        self._topic = topic
        return self

    def wake(self, delay_ms: float) -> None:
        """Look for something new in a while, or earlier if that was said before."""
        due = self._job.clock.now_us / 1000 + delay_ms
        if self._wake is not None and self._wake[1].action is not None:
            if self._wake[0] <= due:
                return
            self._wake[1].cancel()
        self._wake = due, self._job.clock.at(due, self._run)

    def _appended(self, topic: str, partition: int) -> None:
        if not self.isActive:
            self._job.world.kafka.listeners.remove(self._appended)
        elif self.name != GROUP_COORDINATOR and topic == GROUP_REQUESTS:
            if self._random.random() < 0.3:  # a source polls all the time: also a moment before there is something
                self.wake(self._random.uniform(1, _POLL_MS))
        elif topic == self._topic:
            self.wake(self._random.uniform(1, _REQUEST_MS))
        elif self.name != GROUP_COORDINATOR and topic not in JOB_TOPICS and self.parts.hand_over.read().waiting:
            self.wake(self._random.uniform(1, _LOG_MS))

    def _run(self) -> None:
        if not self.isActive:
            return
        if self._running:
            self._again = True
            return
        self._running = True
        try:
            while self.batches.run_next() or self._again:
                self._again = False
                self._tell_others()
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

    def _tell_others(self) -> None:
        """The other query's source polls this one's tables."""
        if self.name == GROUP_COORDINATOR:
            other = self._job.queries.get(job_adapter.SHARE_PARTITION)
            if other is not None:
                other.wake(self._random.uniform(1, _TABLE_MS))

    def _wake_at_deadline(self) -> None:
        now = self._job.now_ms()
        deadline = min(self.parts.hand_over.read().deadlines.values(), default=None)
        idle = float(self._job.config.job.log_idle_poll_interval_ms)
        if deadline is not None:
            # A tick needs a safe time beyond the deadline: it is looked for a moment later.
            idle = min(idle, max(deadline - now + 2.0, 20.0))
        self.wake(idle)
