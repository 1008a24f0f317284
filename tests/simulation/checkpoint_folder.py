"""A streaming query's checkpoint as Spark stores it: an offset log, a commit log, and the operator's state by version.

The offsets of a batch are written before it runs, its state becomes version n + 1 while it runs, and its commit is
written when the sink has returned. A start repeats the last batch if it has no commit, with the same offsets and the
state before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class PlannedBatch(NamedTuple):
    """An entry of the offset log: the end offset of each source. The timestamp that Spark adds is not used."""

    log: Any
    requests: Mapping[int, int]


@dataclass
class CheckpointFolder:
    """The remains of a query after the end of its process. `first` are the sources' initial offsets. `states[n]` is the
    state before batch n, by key. `committed` and `boot` are the content of `job.lead.checkpoint_mark`; `boot` counts
    the starts of the machine."""

    query_id: str = ""
    first: tuple[Any, Mapping[int, int]] | None = None
    offsets: list[PlannedBatch] = field(default_factory=list)
    commits: int = 0
    states: dict[int, Mapping[str, str]] = field(default_factory=lambda: {0: {}})
    committed: Mapping[str, int] = field(default_factory=dict)
    boot: int = 0

    def copy(self) -> CheckpointFolder:
        """Return a backup, for a start with an old checkpoint."""
        states = dict(self.states)
        return CheckpointFolder(
            self.query_id, self.first, list(self.offsets), self.commits, states, self.committed, self.boot
        )

    def drop(self) -> None:
        """Remove the checkpoint, as `job.checkpoint.discard_checkpoint` does."""
        self.query_id, self.first, self.offsets = "", None, []
        self.commits, self.states, self.committed = 0, {0: {}}, {}

    def mark(self, committed: Mapping[str, int]) -> None:
        """Write the mark, as `job.lead.checkpoint_mark.MarkFile.write` does."""
        self.committed = dict(committed)

    def is_of_earlier_boot(self, boot: int) -> bool:
        """Return the same as `job.lead.checkpoint_mark.MarkFile.is_of_earlier_boot`."""
        return bool(self.query_id) and self.boot != boot

    def tear(self) -> None:
        """Lose the data that Spark wrote last without sync: the states."""
        self.states = {0: {}}

    def starts(self, batch_id: int) -> tuple[Any, Mapping[int, int]]:
        """Return the start offsets of a batch's sources."""
        if batch_id == 0:
            assert self.first is not None
            return self.first
        return self.offsets[batch_id - 1].log, self.offsets[batch_id - 1].requests

    def forget_old(self, batches: int = 3) -> None:
        """Remove states that no start can need."""
        for version in [version for version in self.states if version < self.commits - batches]:
            del self.states[version]
