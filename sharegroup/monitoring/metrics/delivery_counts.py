"""Counts the records that were acquired for members of a gateway.

Either a micro-batch acquired them, or the gateway itself assigned them to a member. The gateway assigns records that
the job had reserved for it, or that a member has released.
"""

from collections.abc import Iterator

from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Counter, Histogram, MetricFamily

_BATCH, _RESERVED = "batch", "reserved"


class DeliveryCounts:
    """Counts the records that were acquired for members of one gateway.

    All methods must be called on one thread, except `families`.
    """

    def __init__(self) -> None:
        self._records = Counter(catalogue.RECORDS_GIVEN)
        for way in (_BATCH, _RESERVED):
            self._records.add(0, way)
        self._seconds = Histogram(catalogue.ASSIGNMENT_SECONDS)

    def count_acquired(self, records: int) -> None:
        """Count records that a micro-batch acquired for a member."""
        self._records.add(records, _BATCH)

    def count_assigned(self, records: int, seconds: float) -> None:
        """Count reserved or released records that the gateway assigned to a member.

        `seconds` is the time from the choice of the member until the records could be sent to it.
        """
        self._records.add(records, _RESERVED)
        self._seconds.observe(seconds)

    def families(self) -> Iterator[MetricFamily]:
        yield self._records.family()
        yield self._seconds.family()
