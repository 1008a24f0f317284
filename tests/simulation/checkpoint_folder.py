"""A streaming query's checkpoint as Spark keeps it: an offset log, a commit log, and the operator's state by version.

The offsets of a batch are written before it runs, its state becomes version n + 1 while it runs, and its commit is
written when the sink has returned. Whoever starts with it runs the last batch again if that has no commit: with the
same offsets, from the state before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class PlannedBatch(NamedTuple):
    """A line of the offset log: each source's end offset. The batch's timestamp, which Spark adds, nobody reads."""

    log: Any
    requests: Mapping[int, int]


@dataclass
class CheckpointFolder:
    """What is left of a query when its process is gone. `first` are the sources' initial offsets. `states[n]` is the
    state before batch n, by key. `committed` and `boot` are what `job.lead.checkpoint_mark` keeps: `boot` counts the
    starts of the machine."""

    query_id: str = ""
    first: tuple[Any, Mapping[int, int]] | None = None
    offsets: list[PlannedBatch] = field(default_factory=list)
    commits: int = 0
    states: dict[int, Mapping[str, str]] = field(default_factory=lambda: {0: {}})
    committed: Mapping[str, int] = field(default_factory=dict)
    boot: int = 0

    def copy(self) -> CheckpointFolder:
        """A backup, for a start that comes back with an old checkpoint."""
        states = dict(self.states)
        return CheckpointFolder(
            self.query_id, self.first, list(self.offsets), self.commits, states, self.committed, self.boot
        )

    def drop(self) -> None:
        """Become a folder without a checkpoint, as by `job.checkpoint.discard_checkpoint`."""
        self.query_id, self.first, self.offsets = "", None, []
        self.commits, self.states, self.committed = 0, {0: {}}, {}

    def mark(self, committed: Mapping[str, int]) -> None:
        """As `job.lead.checkpoint_mark.MarkFile.write`."""
        self.committed = dict(committed)

    def is_of_earlier_boot(self, boot: int) -> bool:
        """As `job.lead.checkpoint_mark.MarkFile.is_of_earlier_boot`."""
        return bool(self.query_id) and self.boot != boot

    def tear(self) -> None:
        """Lose what Spark has written last and has not synced: the states."""
        self.states = {0: {}}

    def starts(self, batch_id: int) -> tuple[Any, Mapping[int, int]]:
        """Where the sources of a batch begin."""
        if batch_id == 0:
            assert self.first is not None
            return self.first
        return self.offsets[batch_id - 1].log, self.offsets[batch_id - 1].requests

    def forget_old(self, batches: int = 3) -> None:
        """Drop states that no start can need any more."""
        for version in [version for version in self.states if version < self.commits - batches]:
            del self.states[version]
