"""Class-data archives: a JVM that starts from one needs about a third less CPU time until it has started.

A JVM writes an archive of the classes it has loaded when it ends in order, and later JVMs with the same class path
start from it. The demo and the tests make theirs once for each virtual environment:

    .venv/.stamps/spark.jsa     of a Spark driver that runs the job
    .venv/.stamps/broker.jsa    of a Kafka broker
"""

from __future__ import annotations

import sys
from pathlib import Path


class ClassArchive:
    """An archive and the JVM options that use or make it. A JVM that cannot use it starts without it."""

    def __init__(self, name: str) -> None:
        self.path = Path(sys.prefix) / ".stamps" / f"{name}.jsa"
        self._new = self.path.with_suffix(".new")

    @property
    def exists(self) -> bool:
        """Whether the archive was made."""
        return self.path.exists()

    def options(self) -> tuple[str, ...]:
        """JVM options to start from the archive; none while there is no archive."""
        return (f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if self.exists else ()

    def recording_options(self) -> tuple[str, ...]:
        """JVM options to write the archive at the end of the process; `keep` puts it in place.

        An earlier archive is removed: a JVM cannot start from one and write one.
        """
        self.path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)
        return (f"-XX:ArchiveClassesAtExit={self._new}",)

    def keep(self) -> bool:
        """Put the archive in place that a JVM has written; return whether it wrote one."""
        if not self._new.exists():
            return False
        self._new.replace(self.path)
        return True


SPARK = ClassArchive("spark")
BROKER = ClassArchive("broker")
