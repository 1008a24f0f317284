"""Runs a consumer's acknowledgement commit callback, and stores the results until the callback has received them."""

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

#: A function of the application with two arguments: {partition: acknowledged offsets}, and the error (None for
#: success).
CommitCallback = Callable[[dict[TopicIdPartition, set[int]], RequestError | None], None]


class CommitCallbackRunner:
    """Calls the application's callback once for each result. If no callback is set, results are discarded.

    One thread may add results while another thread runs the callback.
    """

    def __init__(self) -> None:
        self.callback: CommitCallback | None = None
        self._results: deque[AcknowledgeResult] = deque()
        #: The id of the thread that is running the callback; None while the callback is not running.
        self._thread_id: int | None = None

    def add(self, results: Iterable[AcknowledgeResult]) -> None:
        """Store results for the next run of the callback. If no callback is set, discard them."""
        if self.callback is not None:
            self._results.extend(results)

    def check(self) -> None:
        """Raise IllegalStateError if this thread is running the callback, which must not use the consumer."""
        if self._thread_id == threading.get_ident():
            raise IllegalStateError("the acknowledgement commit callback must not use the consumer")

    def start(self, caller: LoopCaller) -> None:
        """If results are stored, pass `run` to `caller`, which determines the thread on which `run` is called."""
        if self._results:
            caller.post(self.run)

    def run(self) -> None:
        """Call the callback with each result. Exceptions of the callback are logged."""
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
