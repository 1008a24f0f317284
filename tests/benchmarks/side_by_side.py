"""The job and the bare query under the same requests, in turns: A B A B, one holding still while the other runs.

Both are processes of their own with the same session settings; both get rows of the same form, as many a batch, with
the same operator keys. The job's batches follow each other as a member is answered; the bare query's from a backlog.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks import bare_query, topics
from tests.benchmarks.engine import Engine, row_topics, submitted, write_config
from tests.benchmarks.member_load import ENGINE, MemberLoad
from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.spark_progress import MicroBatch, Window, inside, micro_batches

GROUP_ID = "benchmark"
#: A request for each of the two things that a member says in a round: acknowledge, fetch.
ROWS_PER_ROUND = 2
_ROUND_SIZE = 5
_RECORD_SIZE = 20


class Turns(NamedTuple):
    """How long to measure: turns of each side, seconds of a turn, micro-batches before the first."""

    number: int
    seconds: float
    warm_up: int


@dataclass
class Measured:
    """The micro-batches of both sides, from their turns alone."""

    job: list[MicroBatch] = field(default_factory=list)
    bare: list[MicroBatch] = field(default_factory=list)
    job_cpu_s: float = 0.0
    bare_cpu_s: float = 0.0

    @property
    def cpu_ms(self) -> tuple[float, float]:
        """CPU time of a micro-batch of each side, of its whole process tree: what a busy machine does not change."""
        return 1000 * self.job_cpu_s / max(1, len(self.job)), 1000 * self.bare_cpu_s / max(1, len(self.bare))


class JobUnderLoad:
    """The job with a topic of `partitions` share-partitions and a member, inside the `with` block."""

    def __init__(
        self,
        kafka: EmbeddedKafka,
        directory: Path,
        *,
        partitions: int,
        rounds: int,
        shards: int = 1,
        trigger_interval_ms: int = 0,
        prepare: Callable[[str, str, str], None] | None = None,
        driver_memory: str = "1g",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`settings` are more keys of the section `job`.

        `prepare` may write the tables that the job starts on: it is told their path, the topic and its id.
        """
        self.kafka, self.directory, self.partitions, self.shards = kafka, directory, partitions, shards
        self.trigger_interval_ms = trigger_interval_ms
        self.topic = directory.name
        kafka.create_topic(self.topic, partitions=partitions)
        topics.fill(kafka.bootstrap_servers, self.topic, partitions, rounds * _ROUND_SIZE, _RECORD_SIZE)
        self._row_topics = row_topics(self.topic)
        job = {"operator.shards": shards, "trigger.interval.ms": trigger_interval_ms, **self._row_topics}
        job |= settings or {}
        # Locks outlive the turns of the other side.
        group = {"group.share.record.lock.duration.ms": 60_000}
        self.config = write_config(directory, kafka.bootstrap_servers, job, group, groups=[GROUP_ID])
        self.engine = Engine(self.config, driver_memory)
        #: What else stands still while the job does.
        self.companions: list[ProcessTree] = []
        if prepare is not None:
            prepare(str(directory / "tables"), self.topic, topics.topic_id(kafka.bootstrap_servers, self.topic))

    def __enter__(self) -> JobUnderLoad:
        self.engine.__enter__()
        try:
            self.member = MemberLoad(
                self.kafka.bootstrap_servers, GROUP_ID, self.topic, self.partitions, _ROUND_SIZE, self._row_topics
            )
            self.member.__enter__()
        except BaseException:
            self.engine.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.member.__exit__(kind, error, trace)
        finally:
            self.engine.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The job and its companions stand still inside the block."""
        with contextlib.ExitStack() as stack:
            for processes in (self.engine.processes, *self.companions):
                stack.enter_context(processes.held())
            yield

    def run(self, seconds: float) -> Window:
        """Let the job work for so long."""
        begin = time.time()
        self.member.go_on()
        time.sleep(seconds)  # the measured interval itself
        self.member.hold()
        return Window(begin * 1000, time.time() * 1000)

    def await_batches(self, count: int) -> None:
        """Warm up: wait until the job has run so many batches from now on."""
        self.member.go_on()
        _await_batches(lambda: len(self.engine.batches()), count)
        self.member.hold()

    def compare(self, active: int, turns: Turns) -> Measured:
        """Measure with `active` of the share-partitions being asked for, in turns with a bare query of as many rows."""
        job_windows, bare_windows = [], []
        with self._bare(active, turns) as bare:
            self.member.ask(range(active))
            self.await_batches(turns.warm_up)
            measured = Measured()
            for _ in range(turns.number):
                cpu = self.engine.processes.cpu_seconds()
                job_windows.append(self.run(turns.seconds))
                measured.job_cpu_s += self.engine.processes.cpu_seconds() - cpu
                with self.engine.processes.held():
                    cpu = bare.processes.cpu_seconds()
                    bare_windows.append(bare.run(turns.seconds))
                    measured.bare_cpu_s += bare.processes.cpu_seconds() - cpu
            measured.job = inside(self.engine.batches(), job_windows)
            measured.bare = inside(bare.batches(), bare_windows)
            return measured

    def against(self, other: JobUnderLoad, turns: Turns) -> Measured:
        """Measure in turns with another job, the `bare` one of what is measured; both are being asked already."""
        windows: dict[JobUnderLoad, list[Window]] = {self: [], other: []}
        measured = Measured()
        for job, still in ((self, other), (other, self)):
            with still.held():
                job.await_batches(turns.warm_up)
        for _ in range(turns.number):
            for job, still in ((self, other), (other, self)):
                with still.held():
                    cpu = job.engine.processes.cpu_seconds()
                    windows[job].append(job.run(turns.seconds))
                    cpu = job.engine.processes.cpu_seconds() - cpu
                if job is self:
                    measured.job_cpu_s += cpu
                else:
                    measured.bare_cpu_s += cpu
        measured.job = inside(self.engine.batches(), windows[self])
        measured.bare = inside(other.engine.batches(), windows[other])
        return measured

    def _bare(self, active: int, turns: Turns) -> BareQuery:
        rows = active * ROWS_PER_ROUND
        batch_s = max(0.05, self.trigger_interval_ms / 1000)
        batches = 4 * turns.warm_up + int(turns.number * turns.seconds / batch_s)
        bare = BareQuery(self, active, rows, turns.warm_up)
        bare.fill(batches)
        return bare


class BareQuery:
    """The bare query, standing still but for `run`, inside the `with` block."""

    def __init__(self, job: JobUnderLoad, active: int, rows: int, warm_up: int) -> None:
        self._job, self._active, self._rows, self._warm_up = job, active, rows, warm_up
        self._topic = f"{job.topic}-bare-{active}"
        self._log_path = job.directory / f"bare-{active}.log"

    def fill(self, batches: int) -> None:
        """Rows for so many batches, in the request partitions where the job's would be."""
        self._job.kafka.create_topic(self._topic, partitions=ENGINE.request_topic_partitions)
        topics.produce(self._job.kafka.bootstrap_servers, self._topic, self._backlog(batches))

    def _backlog(self, batches: int) -> Iterator[tuple[int, bytes, bytes]]:
        rows = []
        for partition in range(self._active):
            key = ShardKey(GROUP_ID, "id", partition % self._job.shards).encode().encode()
            member = "00000000-0000-0000-0000-000000000000"
            named = "0000", GROUP_ID, self._job.topic, "id", partition, member, 1, member
            value = FetchRequest(*named, max_records=500, max_wait_ms=500).encode()
            rows += [(partition % ENGINE.request_topic_partitions, key, value)] * ROWS_PER_ROUND
        for _ in range(batches):
            yield from rows

    def __enter__(self) -> BareQuery:
        self._submitted = submitted(
            "tests/benchmarks/bare_query.py",
            [
                "--config", str(self._job.config), "--topic", self._topic, "--rows", str(self._rows),
                "--checkpoint", str(self._job.directory / f"bare-checkpoint-{self._active}"),
            ],
            self._log_path,
        )  # fmt: skip
        self._submitted.start()
        try:
            with self._job.engine.processes.held():
                self._submitted.await_log(bare_query.RUNNING, 300)
                _await_batches(lambda: len(self.batches()), self._warm_up)
            self.processes.hold()
        except BaseException:
            self._submitted.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._submitted.kill()

    @property
    def processes(self) -> ProcessTree:
        """All processes of the query."""
        return ProcessTree(self._submitted.pid)

    def run(self, seconds: float) -> Window:
        """Let it go on for so long."""
        self.processes.go_on()
        begin = time.time()
        time.sleep(seconds)  # the measured interval itself
        end = time.time()
        self.processes.hold()
        return Window(begin * 1000, end * 1000)

    def batches(self) -> list[MicroBatch]:
        """Its micro-batches so far."""
        return micro_batches(self._log_path, bare_query.NAME)


def _await_batches(count: Callable[[], int], more: int, timeout_s: float = 300) -> None:
    """Wait until `count()` has grown by `more`."""
    wanted, deadline = count() + more, time.monotonic() + timeout_s
    while count() < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{more} micro-batches: not within {timeout_s:.0f} s")
        time.sleep(0.5)  # polls the log of another process
