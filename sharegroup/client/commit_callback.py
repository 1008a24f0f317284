"""The acknowledgement commit callback of a consumer, and the results that it has not received yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from sharegroup.client.core.acknowledgements import AcknowledgeResult
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import TopicIdPartition
from sharegroup.errors import RequestError
from sharegroup.types import AcknowledgeType

logger = logging.getLogger(__name__)

#: Called with the offsets of one partition, and the error or None.
CommitCallback = Callable[[dict[TopicIdPartition, set[int]], RequestError | None], None]


class CommitCallbackRunner:
    """Calls the application's function once for each result. Without a function, results are dropped."""

    def __init__(self) -> None:
        self.callback: CommitCallback | None = None
        self._results: list[AcknowledgeResult] = []
        self._is_running = False

    def add(self, results: Iterable[AcknowledgeResult]) -> None:
        """Keep results for the next run."""
        if self.callback is not None:
            self._results += results

    def check(self) -> None:
        """Raise IllegalStateError if the callback is running: it may not use the consumer."""
        if self._is_running:
            raise IllegalStateError("the acknowledgement commit callback may not use the consumer")

    def run(self) -> None:
        """Call the function with the results; its exceptions are logged."""
        results, self._results = self._results, []
        self._is_running = True
        try:
            for result in results:
                self._call(result)
        finally:
            self._is_running = False

    def _call(self, result: AcknowledgeResult) -> None:
        offsets = {offset for offset, kind in result.types.items() if kind is not AcknowledgeType.GAP}
        try:
            if self.callback is not None:
                self.callback({result.source: offsets}, result.error)
        except Exception:
            logger.exception("the acknowledgement commit callback failed")
