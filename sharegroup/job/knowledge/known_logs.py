"""How far the logs that somebody reads reach, as their leaders have answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sharegroup.core.operators.log_offsets import LogOffsets
from sharegroup.job.knowledge.listing import TopicIdPartition


class KnownLogs:
    """The offsets of each log, and which logs nobody has answered for since they were wanted, for the first time or
    anew."""

    def __init__(self) -> None:
        self._offsets: dict[TopicIdPartition, LogOffsets] = {}
        self._unknown: set[TopicIdPartition] = set()

    @property
    def offsets(self) -> Mapping[TopicIdPartition, LogOffsets]:
        """Of those that are known."""
        return self._offsets

    @property
    def unknown(self) -> Collection[TopicIdPartition]:
        """Those that are read and not known, or not known anew."""
        return self._unknown

    def current(self, log: TopicIdPartition) -> LogOffsets | None:
        """What was answered since the log was wanted last; None while nothing was."""
        return None if log in self._unknown else self._offsets.get(log)

    def want(self, log: TopicIdPartition) -> None:
        """Somebody reads the log."""
        if log not in self._offsets:
            self._unknown.add(log)

    def want_anew(self, logs: Collection[TopicIdPartition]) -> None:
        """Somebody begins to read these, others may read them already."""
        self._unknown.update(logs)

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
