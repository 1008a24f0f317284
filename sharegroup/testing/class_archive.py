"""Class-data archives, with which a JVM needs about a third less CPU time for its start.

A JVM writes an archive of its loaded classes when it exits normally, and later JVMs with the same class path start from
it. The demo and the tests create theirs once for each virtual environment:

    .venv/.stamps/spark.jsa     for a Spark driver that runs the job
    .venv/.stamps/broker.jsa    for a Kafka broker
"""

import sys
from pathlib import Path


class ClassArchive:
    """An archive and the JVM options to use or create it. A JVM that cannot use it starts without it."""

    def __init__(self, name: str) -> None:
        self.path = Path(sys.prefix) / ".stamps" / f"{name}.jsa"
        self._new = self.path.with_suffix(".new")

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def options(self) -> tuple[str, ...]:
        """Return the JVM options to start from the archive; none if it does not exist."""
        return (f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if self.exists else ()

    def recording_options(self) -> tuple[str, ...]:
        """Return the JVM options to write the archive when the process ends; `keep` then stores it.

        An existing archive is removed, because a JVM cannot both start from one and write one.
        """
        self.path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)
        return (f"-XX:ArchiveClassesAtExit={self._new}",)

    def keep(self) -> bool:
        """Store the archive that a JVM has written; return whether there is one."""
        if not self._new.exists():
            return False
        self._new.replace(self.path)
        return True


SPARK = ClassArchive("spark")
BROKER = ClassArchive("broker")
