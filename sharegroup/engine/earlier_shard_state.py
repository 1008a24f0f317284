"""The state of a shard as the version before wrote it, so that its checkpoint stays good.

Format 2 had each window as one list in the JSON, where format 3 has pieces in lines of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from sharegroup.engine.led_partition import DumpedPartition
from sharegroup.share_partition.in_flight import InFlight
from sharegroup.share_partition.in_flight_record import InFlightRecord
from sharegroup.types import RecordState

FORMAT_2 = 2
_HOLE = -1


def partition_of_format_2(values: list[Any]) -> DumpedPartition:
    """A share-partition as `LedPartition.dump` writes it now."""
    lock_deadline_ms, header, (*machine, _terminal_count, window), log = values
    start_offset = machine[0]
    pieces, texts = InFlight(_records(window, start_offset)).dump(start_offset)
    return DumpedPartition([lock_deadline_ms, header, [*machine, pieces], log], texts)


def _records(window: list[Any], base: int) -> Iterator[tuple[int, int, InFlightRecord]]:
    """Lengths of ranges, places in a table of distinct records, and places of members; offsets relative to `base`."""
    if not window:
        return
    first, lengths, rows, packed, members = window
    table = []
    for state, count, member, deadline_ms, *batch in packed:
        record = InFlightRecord(RecordState(state), count, members[member], deadline_ms)
        table.append(record._replace(batch_first=batch[0] + base, batch_last=batch[1] + base) if batch else record)
    for offset, length, row in zip(accumulate(lengths, initial=first + base), lengths, rows, strict=False):
        if row != _HOLE:
            yield offset, offset + length - 1, table[row]
