"""The real job as its own spark-submit, with Spark's progress in its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import yaml

from sharegroup.spark.queries.share_partition_query import NAME
from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.spark_progress import MicroBatch, micro_batches
from tests.harness.submitted_job import ROOT, SubmittedJob

RUNNING = "the share-group job is running"
_START_S = 600
_LOG4J2 = Path(__file__).with_name("log4j2.properties")


def submitted(script: str, arguments: Sequence[str], log_path: Path, driver_memory: str = "1g") -> SubmittedJob:
    """A job whose log has Spark's progress; its own process, as people start it."""
    conf = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J2}"}
    return SubmittedJob(
        script, arguments, log_path, conf=conf, environment={"PYTHONPATH": str(ROOT)}, driver_memory=driver_memory
    )


def write_config(
    directory: Path,
    bootstrap_servers: str,
    job: Mapping[str, object] | None = None,
    group: Mapping[str, object] | None = None,
    groups: Iterable[str] = (),
    gateway: Mapping[str, object] | None = None,
    own: Mapping[str, Mapping[str, object]] | None = None,
) -> Path:
    """The job's YAML; each of `groups` starts at the log's beginning, and some have keys of their `own`."""
    content = {
        "job": {
            "bootstrap.servers": bootstrap_servers,
            "tables.path": str(directory / "tables"),
            "checkpoint.path": str(directory / "checkpoint"),
            **(job or {}),
        },
        "group": dict(group or {}),
        "gateway": dict(gateway or {}),
        "groups": {name: {"share.auto.offset.reset": "earliest", **(own or {}).get(name, {})} for name in groups},
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "share_group.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def row_topics(prefix: str) -> dict[str, str]:
    """Names for the three topics of the job's rows, by their config keys, so that several jobs can use one broker."""
    return {
        "share.group.requests.topic": f"{prefix}-group-requests",
        "share.partition.requests.topic": f"{prefix}-partition-requests",
        "share.group.responses.topic": f"{prefix}-responses",
    }


class Engine:
    """The share-group job, running inside the `with` block."""

    def __init__(self, config: Path, driver_memory: str = "1g") -> None:
        self.log_path = config.with_name("job.log")
        self._job = submitted("jobs/run_share_group.py", ["--config", str(config)], self.log_path, driver_memory)

    def __enter__(self) -> Engine:
        self._job.start()
        try:
            self._job.await_log(RUNNING, _START_S)
        except BaseException:
            self._job.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End the job with SIGKILL."""
        self._job.kill()

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._job.pid

    @property
    def processes(self) -> ProcessTree:
        """All processes of the job."""
        return ProcessTree(self._job.pid)

    def batches(self) -> list[MicroBatch]:
        """The micro-batches of the share_partition query so far."""
        return micro_batches(self.log_path, NAME)
