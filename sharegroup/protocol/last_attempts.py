"""The rule that a record is delivered alone in its last delivery attempt. No I/O.

If such a record makes its consumer crash, other records do not lose a delivery attempt. As in Kafka, the rule applies
if the delivery count limit is above 2. It is used for Kafka clients of a gateway and for Spark jobs.
"""

from collections.abc import Sequence
from typing import Protocol


class _Delivered(Protocol):
    @property
    def delivery_count(self) -> int:
        """The number of deliveries, including the next one."""


def attempts_together(ranges: Sequence[_Delivered], delivery_count_limit: int) -> int:
    """Return how many ranges from the beginning of `ranges` may be delivered together.

    The result 0 means that the first range is in its last delivery attempt. In this case, only the first record of this
    range may be delivered. If the limit is unknown (0), all ranges may be delivered together.
    """
    if delivery_count_limit <= 2:
        return len(ranges)
    for index, delivered in enumerate(ranges):
        if delivered.delivery_count >= delivery_count_limit:
            return index
    return len(ranges)
