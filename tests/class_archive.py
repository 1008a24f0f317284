"""The classes that a Spark JVM of this project loads, as an archive that it starts from: a third of a start's CPU time.

    python -m tests.class_archive      # makes it, by a run of the job (`make test` does)

Tests start Spark some fifty times. A JVM that cannot use the archive, because it is another one, goes on without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from sharegroup.testkit.jars import QUICK_START

ARCHIVE = Path(sys.prefix) / ".stamps" / "spark.jsa"
#: None of the tests' JVMs lives for long: to compile queries for speed only takes the cores from the start.
NO_CODEGEN = ("-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN")


def spark_options() -> str:
    """SPARK_SUBMIT_OPTS of the tests."""
    archive = [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else []
    return " ".join([*QUICK_START, *NO_CODEGEN, *archive])


def make(path: Path) -> None:
    """Run the job for one member, and have its JVM write the archive when it ends."""
    from sharegroup.testkit.embedded_kafka import EmbeddedKafka
    from sharegroup.testkit.share_group_job import ShareGroupJobRun

    new = path.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*QUICK_START, *NO_CODEGEN, f"-XX:ArchiveClassesAtExit={new}"])
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedKafka(heap="-Xmx256m") as kafka,
        ShareGroupJobRun(Path(directory), kafka.bootstrap_servers, master="local[1]") as job,
    ):
        job.start()
        job.await_running()
        kafka.create_topic("orders")
        job.warm_up("orders")
        job.process.terminate()
    if new.exists():
        new.replace(path)
    else:
        print(f"{path.name}: this Java made none; the tests run without it")


if __name__ == "__main__":
    make(ARCHIVE)
