"""Answers that cost a read of the tables, kept for those who ask the same soon after."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: An answer is given again for so long at least, and for nine times as long as it took to make.
FRESH_S, _TIMES = 10.0, 9
_MOST = 32


class KeptAnswers:
    """Makes one answer at a time; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._making = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    def get(self, question: Hashable, make: Callable[[], T]) -> T:
        """The answer to a question, as `make` gives it now or gave it lately. What it raises is not kept."""
        with self._making:
            began = self._clock()
            if question in self._kept and began < self._kept[question][0]:
                return cast("T", self._kept[question][1])
            answer = make()
            ended = self._clock()
            self._kept[question] = ended + max(FRESH_S, _TIMES * (ended - began)), answer
            self._kept.move_to_end(question)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
            return answer
