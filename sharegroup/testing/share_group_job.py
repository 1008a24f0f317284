"""The main job on tables and topics of its own, to be started, killed, stopped and started again.

    with ShareGroupJobRun(directory, kafka.bootstrap_servers, prefix="crash-") as job:
        job.start()
        client = job.client()

Times are short where that changes nothing but waiting. Groups with a configuration of their own must be in the job's
file before it starts, so there is a stock of ids for each kind in `GROUP_KINDS`; `new_group("earliest")` takes one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from sharegroup.config import NO_CELL, Config, load_config
from sharegroup.job.commit.fault_points import VARIABLE as FAULT_POINT
from sharegroup.spark.local_spark import local_settings
from sharegroup.spark.log_set_up import LINES_VARIABLE
from sharegroup.testing.raw_member import RawMember, RequestClient
from sharegroup.testing.submitted_job import SubmittedJob, SubmittedJobError

#: What is told apart by `new_group`; every kind but "latest" starts at the beginning of a topic.
GROUP_KINDS: Mapping[str, Mapping[str, Any]] = {
    "earliest": {},
    "latest": {"share.auto.offset.reset": "latest"},
    "by_duration": {"share.auto.offset.reset": "by_duration:PT1H"},
    "read_committed": {"share.isolation.level": "read_committed"},
    "short_session": {"share.session.timeout.ms": 10_000, "share.heartbeat.interval.ms": 500},
    "short_lock": {"share.record.lock.duration.ms": 4_000},
    "renewed_lock": {"share.record.lock.duration.ms": 10_000, "share.assignor": "all"},
    "restart_lock": {"share.record.lock.duration.ms": 30_000},
    "named": {"share.client.id.as.instance.id": True},
    # Who reads what does not depend on how requests fall into batches.
    "all_at_once": {"share.assignor": "all", "share.assignment.interval.ms": 0},
}
GROUPS_OF_A_KIND = {"earliest": 60}
_GROUPS_OF_ANOTHER_KIND = 8

_JOB: Mapping[str, Any] = {"log.idle.poll.interval.ms": 1_000}
#: Long sessions and locks: what ends by time is for the groups that say so.
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
#: Tests wait for lines of the log: none is left out.
_EVERY_LINE = 1_000_000
#: In the job's log when a query failed for a reason that may pass.
QUERY_FAILED = "failed, will start again"


class ShareGroupJobRun:
    """Writes the job's configuration, and starts and ends the job by it. `directory` holds its files; `prefix` begins
    the names of its three topics.

    `name` is for runs that share a directory; `job` and `group` go over what these sections of its file would hold.
    `cells` is that section, and `cell` the one whose job this is; `environment` is added to that of the process.
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
        master: str = "local[2]",
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
        """Alter keys of the section `job`, given with underscores, for the next start."""
        self._sections["job"] |= {name.replace("_", "."): value for name, value in job.items()}
        self.config = self._write_config()

    def _write_config(self) -> Config:
        self.config_path.write_text(yaml.safe_dump(self._sections))
        return load_config(self.config_path).of_cell(self._cell)

    def new_group(self, kind: str = "earliest") -> str:
        """A group id that nobody has had from here; raises StopIteration when the stock of its kind is used up."""
        return next(self._kinds[kind])

    def client(self) -> RequestClient:
        """A client for this job's topics, closed with the job. The job must have run once.

        It waits for no response when the job has ended: SubmittedJobError.
        """
        client = RequestClient(self.bootstrap_servers, self.config.job, self._check_alive)
        self._clients.append(client)
        return client

    # -- its life

    def start(self, fault_point: str = "", working_directory: Path | None = None) -> SubmittedJob:
        """Start the process; `fault_point` is where it will die (`job.commit.fault_points`)."""
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
        """Return when both queries have started. Raises SubmittedJobError."""
        self.await_log(_RUNNING)

    def await_log(self, text: str) -> None:
        """Return when this start has logged `text`. Raises SubmittedJobError."""
        self.process.await_log(text, since=self._since)

    def warm_up(self, topic: str) -> None:
        """Let a member of a group of its own come, acquire and go: the first batches of a JVM are slow, later ones not.

        A record is appended to `topic`, which has one partition.
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
        """What was logged since the last start."""
        return self.log_path.read_bytes()[self._since :].decode(errors="replace")

    @property
    def process(self) -> SubmittedJob:
        """The process of the last start."""
        assert self._job is not None, "the job was not started"
        return self._job

    def forget_checkpoint(self) -> None:
        """Remove the checkpoint, as someone might who wants to start over: the tables are all that is left."""
        shutil.rmtree(self.checkpoint_path)

    def next_batch(self, query: str) -> int:
        """The id of the first batch that no start of the query has begun yet, 0 without a checkpoint."""
        offsets = self.checkpoint_path / query / "offsets"
        return 1 + max((int(path.name) for path in offsets.glob("[0-9]*")), default=-1)

    def is_committed(self, query: str, batch: int) -> bool:
        """Whether Spark has committed the batch (step 5)."""
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
        return (f"{kind}-{number}" for number in range(GROUPS_OF_A_KIND.get(kind, _GROUPS_OF_ANOTHER_KIND)))
