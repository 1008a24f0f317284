"""`share.consumer.group.offset.mirror`: a group's start offsets as the committed offsets of an ordinary consumer group.

Monitors that know consumer groups alone see the group then. It is looked at every `INTERVAL_S`, in the tables, so that
nothing is missed whatever dies; an offset is committed when it is another than the last one. What a consumer group has
that has members of its own, or of partitions that are no more, is left alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from kafka.errors import KafkaError

from sharegroup.errors import ShareGroupError
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.storage.reading.offsets import SharePartitionOffset

logger = logging.getLogger(__name__)

INTERVAL_S = 10.0
_MIRROR = "consumer_group_offset_mirror"

Where = tuple[str, int]


class Commits(Protocol):
    """Where offsets go: see `kafka_clients.group_offsets`."""

    def commit(self, group_id: str, offsets: Mapping[Where, int]) -> Mapping[Where, str]:
        """Commit; what was refused, and why. Raises KafkaError."""


class OffsetMirror:
    """`configs` gives the groups' configs in force, as `ConfigPoll` does, `read` the offsets of some groups."""

    def __init__(
        self,
        configs: Callable[[], Mapping[str, Mapping[str, Any]]],
        read: Callable[[Collection[str]], Mapping[str, Collection[SharePartitionOffset]]],
        commits: Commits,
    ) -> None:
        self._configs, self._read, self._commits = configs, read, commits
        self._committed: dict[tuple[str, str], dict[Where, int]] = {}
        self._said: dict[str, str] = {}

    def look(self) -> None:
        """Commit what has moved. Raises ShareGroupError (the tables are away), KafkaError."""
        mirrors = {
            group_id: str(values[_MIRROR])
            for group_id, values in self._configs().items()
            if group_id and values.get(_MIRROR)
        }
        found = self._read(sorted(mirrors)) if mirrors else {}
        for group_id, mirror in mirrors.items():
            self._mirror(group_id, mirror, found.get(group_id, ()))

    def _mirror(self, group_id: str, mirror: str, offsets: Collection[SharePartitionOffset]) -> None:
        committed = self._committed.setdefault((group_id, mirror), {})
        now = {(row.topic, row.partition): row.start_offset for row in offsets if row.start_offset >= 0}
        moved = {where: offset for where, offset in now.items() if committed.get(where) != offset}
        if not moved:
            return
        refused = self._commits.commit(mirror, moved)
        committed.update({where: offset for where, offset in moved.items() if where not in refused})
        problem = ", ".join(sorted(set(refused.values())))
        if problem != self._said.get(group_id, ""):
            self._said[group_id] = problem
            if problem:
                logger.warning("group %s cannot be mirrored by consumer group %s: %s", group_id, mirror, problem)


class MirrorThread:
    """Looks at an interval, until it is closed; what fails is tried again at the next one."""

    def __init__(self, mirror: OffsetMirror, interval_s: float = INTERVAL_S) -> None:
        self._mirror, self._interval_s = mirror, interval_s
        self._closed = threading.Event()
        self._outage = OutageLog(logger, "start offsets are not mirrored", "start offsets are mirrored again")
        self._thread = threading.Thread(target=self._run, name="offset mirror", daemon=True)

    def start(self) -> None:
        """Begin; to be called once."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End; a look that hangs is not waited for any longer."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            try:
                self._mirror.look()
            except (ShareGroupError, KafkaError, OSError) as error:
                self._outage.began(error)
            else:
                self._outage.ended()
