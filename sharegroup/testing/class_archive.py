"""Class-data archives of JVMs (files with loaded classes). With one, a JVM needs about a third less CPU time to start.

A JVM can write an archive of its loaded classes when it exits normally. Later JVMs with the same class path start from
this archive. The demo and the tests create two archives, once for each virtual environment:

    .venv/.stamps/spark.jsa     for a Spark driver that runs the job
    .venv/.stamps/broker.jsa    for a Kafka broker
"""

import sys
from pathlib import Path


class ClassArchive:
    """The archive `name` of loaded classes, and the JVM options that use or create it.

    JVMs start faster from an archive. A JVM that cannot use the archive starts without it.
    """

    def __init__(self, name: str) -> None:
        self.path = Path(sys.prefix) / ".stamps" / f"{name}.jsa"
        self._new = self.path.with_suffix(".new")

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def options(self) -> tuple[str, ...]:
        """Return the JVM options to start from the archive. If the archive does not exist, return no options."""
        return (f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if self.exists else ()

    def recording_options(self) -> tuple[str, ...]:
        """Remove the archive, and return the JVM options to write a new one when the process ends.

        Call `keep` afterwards to store the new archive. The old one is removed because a JVM cannot both start from an
        archive and write one.
        """
        self.path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)
        return (f"-XX:ArchiveClassesAtExit={self._new}",)

    def keep(self) -> bool:
        """Store the new archive that a JVM has written, and return True. Return False if no JVM has written one."""
        if not self._new.exists():
            return False
        self._new.replace(self.path)
        return True


SPARK = ClassArchive("spark")
BROKER = ClassArchive("broker")
