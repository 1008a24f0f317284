"""The processes of the demo, each with its log in var/demo, and the demo's records."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sharegroup.spark.jars import QUICK_START
from sharegroup.spark.local_spark import local_master, local_settings, pyspark_environment
from sharegroup.testing.class_archive import SPARK
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "var" / "demo"
TABLES = HOME / "tables"
GROUP_ID, TOPIC, PARTITIONS = "demo", "orders", 2
RUNNING = "the share-group job is running"
#: client.id of the Spark member.
SPARK_MEMBER = "spark_member_1"

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
#: JVM options for processes that run for about a minute. They save a third of the CPU time until the first batch. Code
#: generation is off, because a short process does not use the generated code often enough.
_JVM = (*QUICK_START, "-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN")
#: Spark uses one core. With two, it would start a second Python worker, whose imports take a second, and no record
#: would arrive earlier.
_MASTER = local_master(1)
#: Texts that the job logs at its start, each with the stage that begins with it.
STAGES = (
    ("starting Spark", "Spark starts"),
    ("Spark has started", "checking topics and tables"),
    ("query group_coordinator is the leader", "starting the second query"),
    ("query share_partition is the leader", "running the first micro-batches"),
    (RUNNING, "running"),
)


def write_config(bootstrap_servers: str) -> None:
    """Write the configuration of the job and the gateway."""
    (HOME / "share_group.yaml").write_text(_CONFIG.format(bootstrap_servers=bootstrap_servers))


def broker() -> EmbeddedKafka:
    """Return a broker on a free port. It is not started yet."""
    return EmbeddedKafka(port=free_port())


def share_group_job(options: Sequence[str] = ()) -> LoggedProcess:
    """Return the process of the job as `sharegroup job` runs it, with additional JVM `options`. It is not started."""
    command = ["-m", "sharegroup.spark.job.run_job", "--config", str(HOME / "share_group.yaml")]
    return _spark("job", command, options=options)


def spark_member(bootstrap_servers: str) -> LoggedProcess:
    """Return the process of a Spark job that is a member of the group. It is not started."""
    arguments = ["--bootstrap-servers", bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
    arguments += ["--checkpoint", str(HOME / "members"), "--members", "1"]
    return _spark("spark_member", [str(ROOT / "jobs" / "demo_consumers.py"), *arguments])


def _spark(what: str, arguments: list[str], options: Sequence[str] = ()) -> LoggedProcess:
    environment = pyspark_environment(_MASTER, "1g", local_settings())
    jvm = " ".join([*_JVM, *SPARK.options(), *options])
    environment |= {"SPARK_SUBMIT_OPTS": jvm, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return LoggedProcess(what, command, HOME / f"{what}.log", environment=environment, working_directory=HOME)


class KafkaClient(LoggedProcess):
    """A process of a member that uses an unmodified Kafka client: jobs/demo_kafka_client.py."""

    FIRST: ClassVar[str] = "first record"
    program: ClassVar[str] = "kafka_client"

    def __init__(self, bootstrap_servers: str, number: int) -> None:
        arguments = ["--bootstrap-servers", bootstrap_servers, "--group-id", GROUP_ID, "--topic", TOPIC]
        command = [sys.executable, str(ROOT / "jobs" / f"demo_{self.program}.py"), *arguments]
        name = f"{self.program}_{number}"
        super().__init__(name, [*command, "--client-id", name], HOME / f"{name}.log")

    def processed_counts(self) -> Counter[str]:
        """Return how many records the member has processed, by acknowledge type.

        The member writes these counts to its log when it ends. They are empty before that.
        """
        lines = self.log_path.read_text().splitlines()
        return Counter(json.loads(lines[-1])) if lines and lines[-1].startswith("{") else Counter()


class PythonClient(KafkaClient):
    """A process of a member that uses this project's Python consumer instead: jobs/demo_python_client.py."""

    program: ClassVar[str] = "python_client"


def job_stage(log_path: Path, since: int = 0) -> str:
    """Return the stage that the start of the job has reached, by its log without the first `since` bytes."""
    log = log_path.read_bytes()[since:].decode(errors="replace") if log_path.exists() else ""
    return next((stage for text, stage in reversed(STAGES) if text in log), "Python starts")


def produce(bootstrap_servers: str, numbers: range) -> None:
    """Produce the records with these numbers to the partitions in turn.

    Raises RuntimeError if the broker does not accept all of them within a minute.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50})
    for number in numbers:
        while True:
            try:
                producer.produce(TOPIC, partition=number % PARTITIONS, key=b"%d" % number, value=b"order %d" % number)
                break
            except BufferError:  # its queue holds 100,000 records, which a fast machine fills
                producer.poll(0.1)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records could not be produced to {TOPIC} within 60 s; check the broker's log")
