"""Combine state batches that may overlap into sorted, disjoint, maximally fused ones.

Theory of operation
-------------------
Several writes speak about the same offsets; for each offset exactly one of them counts. Which one is the `Precedence`,
the only thing in which the two users of this file differ:

HIGHEST, Kafka's rule. A share coordinator may see writes of the same leader late or twice, but a record's life only
    goes up: the delivery count never falls, and at equal count a terminal state beats AVAILABLE. So the higher
    (delivery_count, delivery state id) counts, whichever came first, and the order of arrival does not matter.

NEWEST, the rule of our own durable records. They are totally ordered by the version of the Delta table (one fenced
    writer), and unlike Kafka's they carry ACQUIRED batches. A release (ACQUIRED 1 -> AVAILABLE 1) lowers the state id
    and an unacquire (ACQUIRED 2 -> AVAILABLE 1) lowers the count: HIGHEST would keep both records locked for ever.

Old `o`, new `n`, the result beneath; a stronger new batch on the left, a weaker one on the right. With NEWEST every new
batch is a stronger one.

    same range            ooooooo          ooooooo
                          nnnnnnn          nnnnnnn
                          NNNNNNN          OOOOOOO

    new inside old        ooooooo          ooooooo
                            nnn              nnn
                          OONNNOO          OOOOOOO

    old inside new          ooo              ooo
                          nnnnnnn          nnnnnnn
                          NNNNNNN          NNOOONN

    same start            ooooooo          ooooooo
                          nnn              nnn
                          NNNOOOO          OOOOOOO

    same end              ooooooo          ooooooo
                              nnn              nnn
                          OOOONNN          OOOOOOO

    overlap to the right  oooooo           oooooo
                             nnnnnn           nnnnnn
                          OOONNNNNN        OOOOOONNN

    overlap to the left      oooooo           oooooo
                          nnnnnn           nnnnnn
                          NNNNNNOOO        NNNOOOOOO

    start offset (|)      ooo|ooo            |
                             |nnn          oo|  nnn
                             NNN             |  NNN

It is a sweep over the first offsets with a heap of the batches that reach the current offset: O(n log n), no batch is
ever split into offsets. Neighbours fuse when everything but their offsets is equal, owner and lock deadline included,
so the result depends only on what each offset is, not on how the input was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from heapq import heappop, heappush

from sharegroup.protocol.range_map import append_fused
from sharegroup.types import UNCHANGED, StateBatch

_STATE_IDS = 8  # more than any delivery state id, so that count * 8 + id sorts like (count, id)


class Precedence(Enum):
    """Which of two batches about the same offset counts."""

    HIGHEST = "highest"
    """The higher (delivery_count, delivery_state); the newer of equal ones."""
    NEWEST = "newest"
    """The one that comes later in the input."""


def combine(
    batches: Iterable[StateBatch],
    start_offset: int = UNCHANGED,
    precedence: Precedence = Precedence.NEWEST,
) -> tuple[StateBatch, ...]:
    """The state of each offset at or above `start_offset` (-1: of all) as sorted, disjoint, fused batches.

    `batches` come oldest first and may overlap. Ranges are inclusive. See KIP-932, "Share coordinator records".
    """
    given = tuple(batches)
    if _is_disjoint(given):
        return _fused(given, start_offset)
    return _swept(given, start_offset, precedence)


def _is_disjoint(batches: Sequence[StateBatch]) -> bool:
    """Whether the batches are already sorted and do not overlap, as those of a window are."""
    last = -1
    for batch in batches:
        if batch[0] <= last:
            return False
        last = batch[1]
    return True


def _fused(batches: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    combined: list[StateBatch] = []
    for batch in batches:
        if batch[1] >= start_offset:
            _append(combined, max(batch[0], start_offset), batch[1], batch)
    return tuple(combined)


def _swept(batches: Sequence[StateBatch], start_offset: int, precedence: Precedence) -> tuple[StateBatch, ...]:
    by_first = sorted((batch[0], -_strength(batch, age, precedence), -age, batch) for age, batch in enumerate(batches))
    combined: list[StateBatch] = []
    reaching: list[tuple[int, int, StateBatch]] = []  # heap of (-strength, -age, batch): the strongest, newest first
    upcoming, count, position = 0, len(by_first), start_offset
    while True:
        while reaching and reaching[0][2][1] < position:
            heappop(reaching)
        if not reaching:
            if upcoming == count:
                return tuple(combined)
            position = max(position, by_first[upcoming][0])
        while upcoming < count and by_first[upcoming][0] <= position:
            heappush(reaching, by_first[upcoming][1:])
            upcoming += 1
        if reaching[0][2][1] < position:  # what was just pushed may end below the start offset
            continue
        winner = reaching[0]
        last = winner[2][1]
        while upcoming < count and by_first[upcoming][0] <= last:
            challenger = by_first[upcoming][1:]
            if challenger < winner:
                last = by_first[upcoming][0] - 1
                break
            heappush(reaching, challenger)
            upcoming += 1
        _append(combined, position, last, winner[2])
        position = last + 1


def _strength(batch: StateBatch, age: int, precedence: Precedence) -> int:
    return age if precedence is Precedence.NEWEST else batch.delivery_count * _STATE_IDS + batch.delivery_state


def _append(combined: list[StateBatch], first: int, last: int, source: StateBatch) -> None:
    """Append first..last in the state of `source`, fused with the neighbour below where that is equal."""
    is_whole = first == source[0] and last == source[1]
    append_fused(combined, source if is_whole else source._replace(first_offset=first, last_offset=last))
