"""Class-data archives of JVMs. With an archive, a JVM needs about a third less CPU time to start.

A JVM can write an archive of its loaded classes when it exits normally. Later JVMs with the same class path start from
this archive. The demo and the tests create two archives, once for each virtual environment:

    .venv/.stamps/spark.jsa     for a Spark driver that runs the job
    .venv/.stamps/broker.jsa    for a Kafka broker
"""

import sys
from pathlib import Path


class ClassArchive:
    """An archive of loaded classes, from which JVMs start faster, and the JVM options to use or create it.

    A JVM that cannot use the archive starts without it.
    """

    def __init__(self, name: str) -> None:
        self.path = Path(sys.prefix) / ".stamps" / f"{name}.jsa"
        self._new = self.path.with_suffix(".new")

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def options(self) -> tuple[str, ...]:
        """Return the JVM options to start from the archive. There are none if the archive does not exist."""
        return (f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if self.exists else ()

    def recording_options(self) -> tuple[str, ...]:
        """Return the JVM options to write a new archive when the process ends. Call `keep` afterwards to store it.

        An existing archive is removed, because a JVM cannot both start from an archive and write one.
        """
        self.path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)
        return (f"-XX:ArchiveClassesAtExit={self._new}",)

    def keep(self) -> bool:
        """Store the archive that a JVM has written. Return False if no JVM has written one."""
        if not self._new.exists():
            return False
        self._new.replace(self.path)
        return True


SPARK = ClassArchive("spark")
BROKER = ClassArchive("broker")
