"""Combine state batches, which may overlap, into sorted and disjoint batches.

Theory of operation
-------------------
Several writes may contain the same offset. For each offset, exactly one batch is effective. The `Precedence` decides
which one:

HIGHEST, Kafka's rule. A share coordinator may receive writes of one leader late or twice. In Kafka, the delivery count
    of a record never decreases, and at equal counts a terminal state is later than AVAILABLE. The batch with the higher
    (delivery_count, delivery state id) is therefore effective, and the order of arrival does not matter.

NEWEST, the rule for records of this project. Their order is the order of the versions of the Delta table, which has one
    fenced writer. Unlike Kafka's records, they contain ACQUIRED batches. A release (ACQUIRED 1 -> AVAILABLE 1) lowers
    the state id, and an unacquire (ACQUIRED 2 -> AVAILABLE 1) lowers the count. With HIGHEST, the records would stay
    locked forever.

Each picture shows the old batch `o`, the new batch `n` and the result. On the left, the new batch takes precedence. On
the right, the old batch does. With NEWEST, the new batch always takes precedence.

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

The algorithm is a sweep over the first offsets, with a heap of the batches that reach the current offset. It takes
O(n log n) and never splits a batch into offsets. Adjacent batches are merged if all fields except the offsets are
equal, including holder and lock deadline. The result therefore depends only on the state of each offset, not on how the
input was split.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from heapq import heappop, heappush

from sharegroup.protocol.range_map import append_fused
from sharegroup.types import UNCHANGED, StateBatch

_STATE_IDS = 8  # more than any delivery state id, so that count * 8 + id sorts like (count, id)


class Precedence(Enum):
    """The rule that decides which of several batches with the same offset is effective."""

    HIGHEST = "highest"
    """The batch with the highest (delivery_count, delivery_state) is effective, or the newest of equal batches."""
    NEWEST = "newest"
    """The batch that comes last in the input is effective."""


def combine_batches(
    batches: Iterable[StateBatch],
    start_offset: int = UNCHANGED,
    precedence: Precedence = Precedence.NEWEST,
) -> tuple[StateBatch, ...]:
    """Return the batches as sorted, disjoint batches at or above `start_offset`. Adjacent equal batches are merged.

    `batches` are ordered from old to new. If batches overlap, `precedence` decides which of them is effective. A
    `start_offset` of -1 keeps all offsets. Both offsets of a batch are inclusive (KIP-932, "Share coordinator
    records").
    """
    given = tuple(batches)
    if _is_disjoint(given):
        return _fused(given, start_offset)
    return _swept(given, start_offset, precedence)


def _is_disjoint(batches: Sequence[StateBatch]) -> bool:
    """Return whether the batches are sorted and disjoint. The batches of an in-flight window always are."""
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
        if reaching[0][2][1] < position:  # a batch that was just pushed may end below the start offset
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
    """Append the part first..last of the batch `source`. Merge it with the previous batch if both have equal fields."""
    is_whole = first == source[0] and last == source[1]
    append_fused(combined, source if is_whole else source._replace(first_offset=first, last_offset=last))
