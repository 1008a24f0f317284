"""The decision of a handler of the share-partition machine: its transitions, and the member's response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, Transition


class Outcome(NamedTuple):
    """A decision that `SharePartition.replay` applies. Until then nothing has changed.

    `transitions` are in offset order within a cause. `response` holds the ranges that a fetch acquired or an
    acknowledgement renewed, in offset order, with neighbours of equal delivery count merged. It is empty for all other
    handlers. The three offsets are None unless a handler moves them: a reset sets `start_offset`, and moves of the log
    set the other two. `lost_locks_over` are locks, (deadline in ms, member), of records below the log start; see "Lost
    records" in `share_partition.py`.
    """

    transitions: tuple[Transition, ...] = ()
    response: tuple[AcquiredRange, ...] = ()
    start_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    lost_locks_over: tuple[tuple[int, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether `replay` would change nothing."""
        return self == Outcome()


def acquired_ranges(transitions: Iterable[Transition]) -> tuple[AcquiredRange, ...]:
    """Return the ranges of `transitions`; contiguous ranges of equal delivery count are fused."""
    ranges: list[AcquiredRange] = []
    for transition in transitions:
        append_fused(ranges, AcquiredRange(transition.first_offset, transition.last_offset, transition.delivery_count))
    return tuple(ranges)
