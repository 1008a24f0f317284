"""The processes of the demo, each with its log in var/demo, and the records that it is about."""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sharegroup.spark.jars import QUICK_START
from sharegroup.spark.local_spark import local_settings, pyspark_environment
from sharegroup.testing.class_archive import SPARK
from sharegroup.testing.embedded_kafka import HOST, EmbeddedKafka
from sharegroup.testing.logged_process import LoggedProcess

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "var" / "demo"
TABLES = HOME / "tables"
GROUP_ID, TOPIC, PARTITIONS = "demo", "orders", 2
RUNNING = "the share-group job is running"

_CONFIG = f"""\
job:
  bootstrap.servers: {{bootstrap_servers}}
  tables.path: {TABLES}
  checkpoint.path: {HOME / "checkpoint"}
group:
  group.share.max.partition.max.record.locks: 100000
groups:
  {GROUP_ID}:
    share.auto.offset.reset: earliest
    share.partition.max.record.locks: 100000
"""
#: For JVMs that live for a minute: a third less CPU time until the first batch. Code that is generated for a query is
#: not used often enough either.
_JVM = (*QUICK_START, "-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN")
#: A second core brings a second Python worker, each with a second of imports, and no record earlier.
_MASTER = "local[1]"
#: What a job logs while it starts, and the stage that begins with it.
_STAGES = (
    ("starting Spark", "Spark starts"),
    ("Spark has started", "topics and tables are checked"),
    ("query group_coordinator leads", "the second query starts"),
    ("query share_partition leads", "the first micro-batches run"),
    (RUNNING, "it runs"),
)


def write_config(bootstrap_servers: str) -> None:
    """The job's and the gateway's configuration."""
    (HOME / "share_group.yaml").write_text(_CONFIG.format(bootstrap_servers=bootstrap_servers))


def broker() -> EmbeddedKafka:
    """A broker to be started, whose address is known before."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return EmbeddedKafka(port=probe.getsockname()[1])


def share_group_job(options: Sequence[str] = ()) -> LoggedProcess:
    """The job, as `sharegroup job` runs it; `options` are more options of its JVM."""
    command = ["-m", "sharegroup.spark.job.run_job", "--config", str(HOME / "share_group.yaml")]
    return _spark("job", command, options=options)


def spark_member(bootstrap_servers: str) -> LoggedProcess:
    """A Spark job as a member. Its start leaves the cores to those who have work."""
    arguments = ["--bootstrap-servers", bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
    arguments += ["--checkpoint", str(HOME / "members"), "--members", "1"]
    return _spark("spark_member", [str(ROOT / "jobs" / "demo_consumers.py"), *arguments], "nice", "-n", "5")


def _spark(what: str, arguments: list[str], *prefix: str, options: Sequence[str] = ()) -> LoggedProcess:
    environment = pyspark_environment(_MASTER, "1g", local_settings())
    jvm = " ".join([*_JVM, *SPARK.options(), *options])
    environment |= {"SPARK_SUBMIT_OPTS": jvm, "PYTHONPATH": str(ROOT)}
    command = [*prefix, sys.executable, *arguments]
    return LoggedProcess(what, command, HOME / f"{what}.log", environment=environment, working_directory=HOME)


class KafkaClient(LoggedProcess):
    """A member that knows nothing of this project: jobs/demo_kafka_client.py."""

    FIRST: ClassVar[str] = "first record"

    def __init__(self, bootstrap_servers: str, number: int) -> None:
        arguments = ["--bootstrap-servers", bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
        command = [sys.executable, str(ROOT / "jobs" / "demo_kafka_client.py"), *arguments]
        name = f"kafka_client_{number}"
        super().__init__(name, [*command, "--client-id", name], HOME / f"{name}.log")

    def did(self) -> Counter[str]:
        """What it acknowledged by its own count, once it has ended."""
        lines = self.log_path.read_text().splitlines()
        return Counter(json.loads(lines[-1])) if lines and lines[-1].startswith("{") else Counter()


def job_stage(log_path: Path, since: int = 0) -> str:
    """How far a job's start is, from the bytes of its log behind `since`."""
    log = log_path.read_bytes()[since:].decode(errors="replace") if log_path.exists() else ""
    return next((stage for text, stage in reversed(_STAGES) if text in log), "Python starts")


def produce(bootstrap_servers: str, records: int) -> None:
    """Write the records, numbered, to the partitions in turn; RuntimeError if the broker does not take them all."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, partition=number % PARTITIONS, key=b"%d" % number, value=b"order %d" % number)
                break
            except BufferError:  # its queue holds 100,000 records, and a quick machine fills it before the broker reads
                producer.poll(0.1)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records could not be produced")
