"""The main job with its own tables and topics, to start, kill, stop and restart.

    with ShareGroupJobRun(directory, kafka.bootstrap_servers, prefix="crash-") as job:
        job.start()
        client = job.client()

Durations are short where this only shortens waiting. Groups with their own configuration must be in the job's file
before it starts. Therefore each kind in `GROUP_KINDS` has a stock of ids; `new_group("earliest")` returns the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from sharegroup.config import NO_CELL, Config, load_config
from sharegroup.job.commit.fault_points import VARIABLE as FAULT_POINT
from sharegroup.spark.local_spark import local_master, local_settings
from sharegroup.spark.log_set_up import LINES_VARIABLE
from tests.harness.raw_member import RawMember, RequestClient
from tests.harness.submitted_job import SubmittedJob, SubmittedJobError

#: The kinds of `new_group`; every kind except "latest" starts at the beginning of a topic.
GROUP_KINDS: Mapping[str, Mapping[str, Any]] = {
    "earliest": {},
    "latest": {"share.auto.offset.reset": "latest"},
    "by_duration": {"share.auto.offset.reset": "by_duration:PT1H"},
    "read_committed": {"share.isolation.level": "read_committed"},
    "short_session": {"share.session.timeout.ms": 30_000, "share.heartbeat.interval.ms": 500},
    "quick_heartbeats": {"share.heartbeat.interval.ms": 500},
    "short_lock": {"share.record.lock.duration.ms": 4_000},
    "second_lock": {"share.record.lock.duration.ms": 1_000},
    "renewed_lock": {"share.record.lock.duration.ms": 10_000, "share.assignor": "all"},
    "restart_lock": {"share.record.lock.duration.ms": 30_000},
    "named": {"share.client.id.as.instance.id": True},
    # The assignment does not depend on the distribution of requests to batches.
    "all_at_once": {"share.assignor": "all", "share.assignment.interval.ms": 0},
}
GROUPS_PER_KIND = {"earliest": 200}
_GROUPS_OF_ANOTHER_KIND = 30

_JOB: Mapping[str, Any] = {"log.idle.poll.interval.ms": 1_000}
#: Sessions and locks are long; groups of the kinds above set shorter ones.
_GROUP: Mapping[str, Any] = {
    "group.share.assignors": "simple,all",
    "group.share.session.timeout.ms": 600_000,
    "group.share.min.session.timeout.ms": 1_000,
    "group.share.max.session.timeout.ms": 3_600_000,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.record.lock.duration.ms": 600_000,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.max.record.lock.duration.ms": 3_600_000,
}
_RUNNING = "the share-group job is running"
#: Tests wait for log lines, so no line is suppressed.
_EVERY_LINE = 1_000_000
#: A text in the job's log when a query failed for a reason that may be temporary.
QUERY_FAILED = "failed; it restarts"


class ShareGroupJobRun:
    """A job with its configuration file, log and processes.

    Args:
        directory: contains the job's files.
        prefix: the begin of the names of its three topics.
        name: the name of its files, for runs that share a directory.
        job, group: override these sections of its file.
        cells, cell: the section `cells` and the cell whose job this is.
        environment: extends the environment of the process.
    """

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        *,
        prefix: str = "__",
        name: str = "job",
        job: Mapping[str, Any] | None = None,
        group: Mapping[str, Any] | None = None,
        master: str = local_master(2),
        cells: Mapping[str, Any] | None = None,
        cell: str = NO_CELL,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._cell = cell
        self._environment = dict(environment or {})
        self.config_path = directory / f"{name}.yaml"
        self.log_path = directory / f"{name}.log"
        self._master = master
        self._directory = directory
        self._kinds = {kind: self._ids(kind) for kind in GROUP_KINDS}
        self._job: SubmittedJob | None = None
        self._clients: list[RequestClient] = []
        self._since = 0
        sections: dict[str, dict[str, Any]] = {
            "job": {
                "bootstrap.servers": bootstrap_servers,
                "tables.path": str(directory / "tables"),
                "checkpoint.path": str(directory / "checkpoint"),
                "share.group.requests.topic": f"{prefix}share_group_requests",
                "share.partition.requests.topic": f"{prefix}share_partition_requests",
                "share.group.responses.topic": f"{prefix}share_group_responses",
                **_JOB,
                **(job or {}),
            },
            "group": {**_GROUP, **(group or {})},
            "cells": dict(cells or {}),
            "groups": {
                group_id: {"share.auto.offset.reset": "earliest", **values}
                for kind, values in GROUP_KINDS.items()
                for group_id in self._ids(kind)
            },
        }
        self._sections = sections
        self.config: Config = self._write_config()
        self.tables_path = Path(self.config.job.tables_path)
        self.checkpoint_path = Path(self.config.job.checkpoint_path)

    def configure(self, **job: Any) -> None:
        """Change keys of the section `job`, written with underscores, for the next start."""
        self._sections["job"] |= {name.replace("_", "."): value for name, value in job.items()}
        self.config = self._write_config()

    def _write_config(self) -> Config:
        self.config_path.write_text(yaml.safe_dump(self._sections))
        return load_config(self.config_path).for_cell(self._cell)

    def new_group(self, kind: str = "earliest") -> str:
        """Return an unused group id of a kind. Raises StopIteration if all are used."""
        return next(self._kinds[kind])

    def client(self) -> RequestClient:
        """Return a client for this job's topics, which is closed with the job. The job must have run once.

        Its waits for responses raise SubmittedJobError if the job has ended.
        """
        client = RequestClient(self.bootstrap_servers, self.config.job, self._check_alive)
        self._clients.append(client)
        return client

    # -- life cycle

    def start(self, fault_point: str = "", working_directory: Path | None = None) -> SubmittedJob:
        """Start the process; it dies at `fault_point` (`job.commit.fault_points`) if one is given."""
        self._since = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._job = SubmittedJob(
            "jobs/run_share_group.py",
            ["--config", str(self.config_path), "--cell", self._cell],
            self.log_path,
            master=self._master,
            conf=local_settings([self.config.job.tables_path, self.config.job.checkpoint_path]),
            environment={FAULT_POINT: fault_point, LINES_VARIABLE: str(_EVERY_LINE), **self._environment},
            working_directory=working_directory or self._directory,
        )
        return self._job.start()

    def await_running(self) -> None:
        """Wait until both queries have started. Raises SubmittedJobError."""
        self.await_log(_RUNNING)

    def await_log(self, text: str) -> None:
        """Wait until this start has logged `text`. Raises SubmittedJobError."""
        self.process.await_log(text, since=self._since)

    def start_warm(self, create_topic: Callable[[str], None]) -> None:
        """Start, wait until both queries run, and warm them up with a new topic. Raises SubmittedJobError."""
        self.start()
        self.await_running()
        create_topic("warm-up")
        self.warm_up("warm-up")

    def warm_up(self, topic: str) -> None:
        """Let a member of a new group join, acquire and leave, because only the first batches of a JVM are slow.

        A record is appended to `topic`, which must have one partition.
        """
        client = self.client()
        member = RawMember(client, self.new_group())
        client.send_value(topic, b"warm-up")
        member.join({topic: 1})
        assert member.fetch(topic, 0, 1).acquired
        assert member.leave().error_code == 0

    def _check_alive(self) -> None:
        if self.process.exit_code is not None:
            raise SubmittedJobError(f"the job ended with {self.process.exit_code}:\n{self.process.log_tail()}")

    @property
    def log(self) -> str:
        """The log since the last start."""
        return self.log_path.read_bytes()[self._since :].decode(errors="replace")

    @property
    def process(self) -> SubmittedJob:
        """The process of the last start."""
        assert self._job is not None, "the job was not started"
        return self._job

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint, so that only the tables remain, as an operator might do to start over."""
        shutil.rmtree(self.checkpoint_path)

    def next_batch(self, query: str) -> int:
        """Return the id of the first batch that the query has never begun; 0 without a checkpoint."""
        offsets = self.checkpoint_path / query / "offsets"
        return 1 + max((int(path.name) for path in offsets.glob("[0-9]*")), default=-1)

    def is_committed(self, query: str, batch: int) -> bool:
        """Return whether Spark has committed the batch (step 5)."""
        return (self.checkpoint_path / query / "commits" / str(batch)).exists()

    def __enter__(self) -> ShareGroupJobRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        if self._job is not None:
            self._job.kill()

    @staticmethod
    def _ids(kind: str) -> Iterator[str]:
        return (f"{kind}-{number}" for number in range(GROUPS_PER_KIND.get(kind, _GROUPS_OF_ANOTHER_KIND)))
