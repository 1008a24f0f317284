"""How far the logs that somebody reads reach, as their leaders have answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sharegroup.engine.log_offsets import LogOffsets
from sharegroup.watch.listing import TopicIdPartition


class KnownLogs:
    """The offsets of each log, and which logs nobody has answered for yet."""

    def __init__(self) -> None:
        self._offsets: dict[TopicIdPartition, LogOffsets] = {}
        self._unknown: set[TopicIdPartition] = set()

    @property
    def offsets(self) -> Mapping[TopicIdPartition, LogOffsets]:
        """Of those that are known."""
        return self._offsets

    @property
    def unknown(self) -> Collection[TopicIdPartition]:
        """Those that are read and not known."""
        return self._unknown

    def want(self, log: TopicIdPartition) -> None:
        """Somebody reads the log."""
        if log not in self._offsets:
            self._unknown.add(log)

    def forget(self, log: TopicIdPartition) -> None:
        """Nobody reads the log any more."""
        self._offsets.pop(log, None)
        self._unknown.discard(log)

    def learn(self, answers: Mapping[TopicIdPartition, LogOffsets]) -> list[TopicIdPartition]:
        """Take answers in; the logs of which they are news."""
        moved = [log for log, offsets in answers.items() if self._offsets.get(log) != offsets]
        self._offsets.update(answers)
        self._unknown.difference_update(answers)
        return moved
