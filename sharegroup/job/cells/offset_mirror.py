"""The config `share.consumer.group.offset.mirror`: commits a share group's start offsets for a consumer group.

Monitors that support only consumer groups can then show the group. The tables are polled every `INTERVAL_S`, and an
offset is committed when it differs from the offset that was last committed. After a restart, all offsets are committed
again. If the consumer group has members of its own, or a partition was deleted, the brokers reject the commit. The
mirror then logs a warning, and commits again at the next poll.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from kafka.errors import KafkaError

from sharegroup.errors import ShareGroupError
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.log_fields import LogFields
from sharegroup.storage.reading.offsets import SharePartitionOffset

logger = logging.getLogger(__name__)

INTERVAL_S = 10.0
_MIRROR = "consumer_group_offset_mirror"

PartitionName = tuple[str, int]


class OffsetCommitter(Protocol):
    """Commits the offsets of a consumer group (implemented in `kafka_clients.group_offsets`)."""

    def commit(self, group_id: str, offsets: Mapping[PartitionName, int]) -> Mapping[PartitionName, str]:
        """Commit offsets, and return {partition: reason} for the rejected ones.

        Raises KafkaError if there is no response.
        """


class OffsetMirror:
    """Commits the start offsets of share groups as offsets of consumer groups, if they changed since the last commit.

    `configs` returns the effective configs of all groups, as `ConfigPoll.in_force` does. `read` returns the offsets of
    the share groups whose ids it receives.
    """

    def __init__(
        self,
        configs: Callable[[], Mapping[str, Mapping[str, Any]]],
        read: Callable[[Collection[str]], Mapping[str, Collection[SharePartitionOffset]]],
        commits: OffsetCommitter,
    ) -> None:
        self._configs, self._read, self._commits = configs, read, commits
        self._committed: dict[tuple[str, str], dict[PartitionName, int]] = {}
        self._reported: dict[str, str] = {}

    def mirror_offsets(self) -> None:
        """Commit the start offsets that differ from those last committed to each consumer group.

        Raises ShareGroupError if the tables are unavailable, and KafkaError if the brokers are unavailable.
        """
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
        rejected = self._commits.commit(mirror, moved)
        committed.update({where: offset for where, offset in moved.items() if where not in rejected})
        problem = ", ".join(sorted(set(rejected.values())))
        if problem != self._reported.get(group_id, ""):
            self._reported[group_id] = problem
            if problem:
                logger.warning(
                    "group %(group)s: cannot commit offsets to consumer group %(resource)s: %(error)s",
                    LogFields(group=group_id, resource=mirror, error=problem),
                )


class MirrorThread:
    """Runs an `OffsetMirror` at an interval on a thread, until closed. A failure is retried at the next interval."""

    def __init__(self, mirror: OffsetMirror, interval_s: float = INTERVAL_S) -> None:
        self._mirror, self._interval_s = mirror, interval_s
        self._closed = threading.Event()
        self._outage = OutageLog(logger, "cannot mirror start offsets", "start offsets are mirrored again")
        self._thread = threading.Thread(target=self._run, name="offset mirror", daemon=True)

    def start(self) -> None:
        """Start the thread. Call it once."""
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop the thread, and wait for it up to the timeout."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            try:
                self._mirror.mirror_offsets()
            except (ShareGroupError, KafkaError, OSError) as error:
                self._outage.report_failure(error)
            else:
                self._outage.report_success()
