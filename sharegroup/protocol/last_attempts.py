"""The rule that a record is delivered alone in its last delivery attempt. No I/O.

If such a record makes its consumer crash, other records do not lose a delivery attempt. As in Kafka, the rule applies
if the delivery count limit is above 2. It is used for Kafka clients of a gateway and for Spark jobs.
"""

from collections.abc import Sequence
from typing import Protocol


class _Delivered(Protocol):
    @property
    def delivery_count(self) -> int:
        """The delivery count of the acquired range. It includes the delivery that the caller is about to make."""


def attempts_together(ranges: Sequence[_Delivered], delivery_count_limit: int) -> int:
    """Return how many ranges at the beginning of `ranges` may be delivered together.

    The count ends before the first range that is in its last delivery attempt. If the result is 0, `ranges[0]` is in
    its last attempt. The caller must then deliver the first record of `ranges[0]` alone, because this record may make
    the consumer crash. If the limit is unknown (0) or at most 2, all ranges may be delivered together.
    """
    if delivery_count_limit <= 2:
        return len(ranges)
    for index, delivered in enumerate(ranges):
        if delivered.delivery_count >= delivery_count_limit:
            return index
    return len(ranges)
