"""Deferred work of a job in virtual time, which `job.commit.later` does on a thread."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from sharegroup.storage.writing.versioned_table import TableStoreError

_RETRY_MS = 1_000


class SimulatedLater:
    """The worker that runs the last submitted task after a delay, if its process is alive then."""

    def __init__(self, process: Any, random: Random) -> None:
        self._process, self._random = process, random
        self._work: Callable[[], None] | None = None
        self._busy = False
        self._failure: Exception | None = None

    def __call__(self, work: Callable[[], None], urgent: bool = False) -> None:
        if self._failure is not None:
            raise self._failure
        self._work = work
        self._soon(self._random.choice((0, 40, 2_000, 20_000)))

    def _soon(self, delay_ms: float) -> None:
        self._process.clock.after(delay_ms, self._run)

    def _run(self) -> None:
        if self._busy or self._work is None or not self._process.alive or self._process.is_postponed(self._run):
            return
        self._busy, work, self._work = True, self._work, None
        try:
            work()
        except TableStoreError:
            self._work = self._work or work
        except Exception as error:  # noqa: BLE001 - it is for whoever comes with the next work
            self._failure = error
        except BaseException:  # noqa: BLE001 - the process was killed
            return
        finally:
            self._busy = False
        if self._work is not None:
            self._soon(_RETRY_MS)
