"""A record at its last delivery attempt is delivered alone, so that a record that kills its consumer does not use up an
attempt of its neighbours. As in Kafka, this applies only if a record may be delivered more than twice. Wire members and
Spark members follow the same rule. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class _Delivered(Protocol):
    @property
    def delivery_count(self) -> int:
        """How often the records were delivered, the coming delivery included."""


def attempts_together(ranges: Sequence[_Delivered], delivery_count_limit: int) -> int:
    """Return how many of the leading `ranges` may be delivered together.

    0 means that the first range is at its last delivery attempt: only its first record may be delivered. Limit 0 means
    that the limit is not known.
    """
    if delivery_count_limit <= 2:
        return len(ranges)
    for index, delivered in enumerate(ranges):
        if delivered.delivery_count >= delivery_count_limit:
            return index
    return len(ranges)
