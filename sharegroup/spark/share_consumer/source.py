"""`share_group_records`: the Python streaming source of a member; a row is a range that the member has acquired.

It runs in a Python worker of the driver, apart from the driver's own Python, and takes batches from the offer file. Its
offset *is* the batch: a batch of Spark's offset log runs again from the offset alone, on an executor too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import SimpleDataSourceStreamReader

from sharegroup.member.offer_file import OfferReader
from sharegroup.member.ranges import NOTHING, OfferedBatch

SOURCE_NAME = "share_group_records"
#: Waiting here costs less than Spark asking again; longer would delay the end of a query.
WAIT_S = 0.5
READER = f"{__name__}:AcquiredRangesReader"


class AcquiredRangesReader(SimpleDataSourceStreamReader):
    """Claims the batches that the member offers; `options` names the `offers` directory.

    Its first batch is empty, and there at once: Spark starts a Python process to plan the first batch of a query, for
    half a second, and has time for that while the member joins its group.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._offers = OfferReader(options["offers"])
        self._is_planned = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset before the first batch, which has no ranges."""
        return NOTHING.to_json()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """The batch on offer, or `start` and no rows; the first time an offset of its own, and no rows."""
        if not self._is_planned:
            self._is_planned = True
            return iter(()), OfferedBatch(0, uuid.uuid4().hex, ()).to_json()
        batch = self._offers.claim(WAIT_S)
        return (iter(()), start) if batch is None else (iter(batch.rows()), batch.to_json())

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        """The rows of a batch once more."""
        return iter([] if start == end else OfferedBatch.from_json(end).rows())

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's, for what may be forgotten: nothing is kept here."""
