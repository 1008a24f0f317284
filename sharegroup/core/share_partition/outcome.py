"""The result type of the handlers of `SharePartition`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, Transition


class Outcome(NamedTuple):
    """The changes that a handler decided. They take effect when `SharePartition.replay` applies them.

    Attributes:
        transitions: State changes of ranges. Changes with the same cause are in offset order.
        response: The ranges that a fetch acquired or an acknowledgement renewed, in offset order. Adjacent ranges of
            equal delivery count are merged. Other handlers return no ranges.
        start_offset: The new start offset after a reset, else None.
        log_start_offset: The new start of the log if it moved, else None.
        log_end_offset: The new end of the log if it moved, else None.
        lost_locks_over: The locks of lost records that end with this outcome, as (deadline in ms, member). Lost records
            are those below the log start. See "Lost records" in `share_partition.py`.
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
    """Return the ranges that `transitions` acquire or renew. Adjacent ranges of equal delivery count are merged."""
    ranges: list[AcquiredRange] = []
    for transition in transitions:
        append_fused(ranges, AcquiredRange(transition.first_offset, transition.last_offset, transition.delivery_count))
    return tuple(ranges)
