"""`share_group_records`: the Python streaming source of a member. A row is a range that the member has acquired.

It runs in a Python worker of the driver, separate from the driver's own Python, and claims batches from the offer file.
Its offset *is* the batch, so a batch of Spark's offset log can be repeated from the offset alone, also on an executor.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.member.offer_file import OfferReader
from sharegroup.member.ranges import NOTHING, OfferedBatch

SOURCE_NAME = "share_group_records"
#: How long a read waits for an offered batch, in seconds. Waiting here costs less than another call by Spark; a longer
#: wait would delay the end of a query.
WAIT_S = 0.5
READER = f"{__name__}:AcquiredRangesReader"


class AcquiredRangesReader(SimpleDataSourceStreamReader):
    """The reader that claims the batches offered by the member. `options["offers"]` is the directory of the offer file.

    Its first batch is empty and available immediately. Spark therefore starts the Python process that plans batches at
    once, while the member joins its group. The start of this process takes half a second.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._offers = OfferReader(options["offers"])
        self._is_planned = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first batch, without ranges."""
        return NOTHING.to_json()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """Return the rows of the offered batch and its offset. If there is no offer, return no rows and `start`.

        The first call returns no rows, and the offset of the empty first batch.
        """
        if not self._is_planned:
            self._is_planned = True
            return iter(()), OfferedBatch(0, uuid.uuid4().hex, ()).to_json()
        batch = self._offers.claim(WAIT_S)
        return (iter(()), start) if batch is None else (iter(batch.rows()), batch.to_json())

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        """Return the rows of the batch in `end`; none if `start` equals `end`."""
        return iter([] if start == end else OfferedBatch.from_json(end).rows())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark reports offsets that it no longer needs, and nothing is stored here."""
