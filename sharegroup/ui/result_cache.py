"""A cache of results that require reading the tables."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: A result is cached for `MIN_AGE_S` seconds, or for `_TIMES` times the duration of its creation if this is longer.
MIN_AGE_S, _TIMES = 10.0, 9
_MAX_RESULTS = 32


class ResultCache:
    """Caches each result for `MIN_AGE_S` seconds, or longer if its creation took long.

    Only one result is created at a time; callers of `get` wait meanwhile. `clock` returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    def get(self, key: Hashable, create: Callable[[], T]) -> T:
        """Return the cached result of a key. If there is none, call `create`, and cache and return its result.

        Errors are not cached.
        """
        with self._lock:
            started = self._clock()
            if key in self._cache and started < self._cache[key][0]:
                return cast("T", self._cache[key][1])
            result = create()
            ended = self._clock()
            self._cache[key] = ended + max(MIN_AGE_S, _TIMES * (ended - started)), result
            self._cache.move_to_end(key)
            if len(self._cache) > _MAX_RESULTS:
                self._cache.popitem(last=False)
            return result
