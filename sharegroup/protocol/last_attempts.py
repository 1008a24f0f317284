"""The rule that a record at its last delivery attempt is delivered alone. No I/O.

A record that crashes its consumer then uses no delivery attempt of its neighbours. As in Kafka, the rule applies if a
record may be delivered more than twice. It is the same for members of a gateway and members that are Spark jobs.
"""

from collections.abc import Sequence
from typing import Protocol


class _Delivered(Protocol):
    @property
    def delivery_count(self) -> int:
        """The number of deliveries, including the next one."""


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
