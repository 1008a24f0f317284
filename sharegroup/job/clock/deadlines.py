"""Deadlines of many keys. The earliest and the expired ones are found without scanning all keys."""

import heapq
from collections.abc import Mapping


class Deadlines:
    """The deadline of each key, in ms.

    `_of_key` has the current deadlines. `_heap` may also contain deadlines that were replaced since; these are ignored
    because they differ from `_of_key`. `_due` has the deadlines that `due_keys` has found expired.
    """

    def __init__(self, of_key: Mapping[str, int]) -> None:
        self._of_key = dict(of_key)
        self._heap = [(deadline_ms, key) for key, deadline_ms in of_key.items()]
        heapq.heapify(self._heap)
        self._due: dict[str, int] = {}

    def get(self, key: str) -> int | None:
        return self._of_key.get(key)

    def as_dict(self) -> dict[str, int]:
        return dict(self._of_key)

    def set(self, key: str, deadline_ms: int | None) -> None:
        """Set the deadline of a key. None removes the deadline."""
        if self._of_key.get(key) == deadline_ms:
            return
        self._due.pop(key, None)
        if deadline_ms is None:
            del self._of_key[key]
            return
        self._of_key[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))
        if len(self._heap) > 2 * len(self._of_key) + 100:
            self._heap = [(deadline, key) for key, deadline in self._of_key.items() if key not in self._due]
            heapq.heapify(self._heap)

    def due_keys(self, time_ms: int) -> list[str]:
        """Return, sorted, the keys whose deadline is before `time_ms`.

        A key stays due until its deadline is replaced.
        """
        while self._heap and self._heap[0][0] < time_ms:
            deadline_ms, key = heapq.heappop(self._heap)
            if self._of_key.get(key) == deadline_ms:
                self._due[key] = deadline_ms
        return sorted(key for key, deadline_ms in self._due.items() if deadline_ms < time_ms)

    @property
    def first_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        while self._heap and self._of_key.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        heads = [self._heap[0][0]] if self._heap else []
        return min([*heads, *self._due.values()], default=None)
