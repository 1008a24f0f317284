"""What a handler of the share-partition machine decided: transitions, and the response for the member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, Transition


class Outcome(NamedTuple):
    """A decision that `SharePartition.replay` carries out; until then nothing has changed.

    `transitions` are in offset order within a cause. `response` is what a fetch acquired, or an acknowledgement
    renewed, in offset order, neighbours with equal delivery counts merged; empty for everything else. The three offsets
    are set by the handlers that move them: `start_offset` by a reset, the other two by a move of the log's ends.
    `lost_locks_over` are locks, (deadline in ms, member), of records that the log start has passed: see "Lost records"
    in `share_partition.py`.
    """

    transitions: tuple[Transition, ...] = ()
    response: tuple[AcquiredRange, ...] = ()
    start_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    lost_locks_over: tuple[tuple[int, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to replay."""
        return self == Outcome()


def acquired_ranges(transitions: Iterable[Transition]) -> tuple[AcquiredRange, ...]:
    """The ranges of `transitions`, contiguous ones of equal delivery count fused."""
    ranges: list[AcquiredRange] = []
    for transition in transitions:
        append_fused(ranges, AcquiredRange(transition.first_offset, transition.last_offset, transition.delivery_count))
    return tuple(ranges)
