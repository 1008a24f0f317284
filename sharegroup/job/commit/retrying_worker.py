"""Tasks that run and retry on a background thread."""

import logging
import threading
from collections.abc import Callable

from sharegroup.log_fields import LogFields
from sharegroup.storage.writing.versioned_table import TableStoreError

logger = logging.getLogger(__name__)

_RETRY_S = 1.0


class RetryingWorker:
    """Runs the most recently submitted task on a background thread, and repeats it while it raises TableStoreError.

    A call of the worker submits a task. The task replaces one that has not started, so it must include the other task's
    work. The thread pauses for `retry_s` seconds before it repeats a task. After each completed task it pauses for
    `rest_s` seconds, which combines frequent submissions; an urgent task skips this pause. If a task raises any other
    error, later submissions raise that error. `close` ends the thread.
    """

    def __init__(self, name: str, retry_s: float = _RETRY_S, rest_s: float = 0.0) -> None:
        self._retry_s, self._rest_s = retry_s, rest_s
        self._changed = threading.Condition()
        self._work: Callable[[], None] | None = None
        self._busy = self._urgent = self._closing = self._closed = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __call__(self, work: Callable[[], None], urgent: bool = False) -> None:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._work = work
            self._urgent |= urgent
            if not self._thread.is_alive() and not self._closed:
                self._thread.start()
            self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Wait until the task is done, and end the thread; return whether the task succeeded within the timeout."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._is_due or self._failure is not None, timeout_s)
            self._closed, self._work = True, None
            self._changed.notify_all()
        return done and self._failure is None

    @property
    def _is_due(self) -> bool:
        return self._busy or self._work is not None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._work is not None or self._closed)
                work, self._work = self._work, None
                if work is None:
                    return
                self._busy, self._urgent = True, False
            again = self._try(work)
            with self._changed:
                self._busy = False
                if again and self._work is None and not self._closed:
                    self._work = work
                self._changed.notify_all()
                if again:
                    self._changed.wait_for(lambda: self._closed, self._retry_s)
                else:
                    self._changed.wait_for(lambda: self._urgent or self._closing, self._rest_s)

    def _try(self, work: Callable[[], None]) -> bool:
        """Run the task; return whether it must be retried."""
        try:
            work()
        except TableStoreError as error:
            logger.warning(
                "a background write failed; retrying every %(retry_s)g s: %(error)s",
                LogFields(retry_s=self._retry_s, error=error),
            )
            return True
        except Exception as error:  # noqa: BLE001 - the next submission raises it
            with self._changed:
                self._failure = error
        return False
