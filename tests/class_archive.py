"""Makes the class-data archives from which the JVMs of the tests start (`sharegroup.testing.class_archive`).

python -m tests.class_archive      # runs a broker and the job for one member; `make test` does it once
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sharegroup.spark.jars import QUICK_START
from sharegroup.testing.class_archive import BROKER, SPARK

#: None of the tests' JVMs lives for long: to compile queries for speed only takes the cores from the start.
NO_CODEGEN = ("-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN")
#: A JVM writes its archive before it ends: 20 s of CPU time, several minutes on a busy machine.
_ARCHIVE_TIMEOUT_S = 600.0


def spark_options() -> str:
    """SPARK_SUBMIT_OPTS of the tests."""
    return " ".join([*QUICK_START, *NO_CODEGEN, *SPARK.options()])


def make() -> None:
    """Run a broker and the job for one member, whose JVMs write the archives when they end."""
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.share_group_job import ShareGroupJobRun

    os.environ["KAFKA_OPTS"] = " ".join([*QUICK_START, *BROKER.recording_options()])
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*QUICK_START, *NO_CODEGEN, *SPARK.recording_options()])
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedKafka(heap="-Xmx256m") as kafka,
        ShareGroupJobRun(Path(directory), kafka.bootstrap_servers, master="local[1]") as job,
    ):
        job.start()
        job.await_running()
        kafka.create_topic("orders")
        job.warm_up("orders")
        job.process.terminate(_ARCHIVE_TIMEOUT_S)
    if not (SPARK.keep() and BROKER.keep()):
        print("class archive: this Java made none; the tests run without it")


if __name__ == "__main__":
    make()
