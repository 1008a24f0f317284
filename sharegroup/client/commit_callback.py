"""The acknowledgement commit callback of a consumer, and the results that it has not received yet."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from sharegroup.client.caller_thread import LoopCaller
from sharegroup.client.core.acknowledgements import AcknowledgeResult
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import TopicIdPartition
from sharegroup.errors import RequestError
from sharegroup.types import AcknowledgeType

logger = logging.getLogger(__name__)

#: Called with the offsets of one partition, and the error or None.
CommitCallback = Callable[[dict[TopicIdPartition, set[int]], RequestError | None], None]


class CommitCallbackRunner:
    """Calls the application's function once for each result. Without a function, results are dropped.

    One thread may add results while another one runs the function.
    """

    def __init__(self) -> None:
        self.callback: CommitCallback | None = None
        self._results: deque[AcknowledgeResult] = deque()
        #: The thread that runs the function.
        self._thread_id: int | None = None

    def add(self, results: Iterable[AcknowledgeResult]) -> None:
        """Keep results for the next run."""
        if self.callback is not None:
            self._results.extend(results)

    def check(self) -> None:
        """Raise IllegalStateError if the callback is the caller: it may not use the consumer."""
        if self._thread_id == threading.get_ident():
            raise IllegalStateError("the acknowledgement commit callback may not use the consumer")

    def start(self, caller: LoopCaller) -> None:
        """Let the caller run the function if there are results."""
        if self._results:
            caller.post(self.run)

    def run(self) -> None:
        """Call the function with the results; its exceptions are logged."""
        self._thread_id = threading.get_ident()
        try:
            while self._results:
                self._call(self._results.popleft())
        finally:
            self._thread_id = None

    def _call(self, result: AcknowledgeResult) -> None:
        offsets = {offset for offset, kind in result.types.items() if kind is not AcknowledgeType.GAP}
        try:
            if self.callback is not None:
                self.callback({result.source: offsets}, result.error)
        except Exception:
            logger.exception("the acknowledgement commit callback failed")
