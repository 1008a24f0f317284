"""Turns by address: whoever waits is served in the order of coming, but one of each address after the other.

PURE. A thousand who wait at one address put off somebody at another address by one turn, not by a thousand.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairTurns(Generic[T]):
    """What waits, by address. An address whose turn is over goes behind all others."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, address: str, item: T) -> None:
        """It waits, behind those of its address."""
        self._waiting.setdefault(address, deque()).append(item)

    def discard(self, address: str, item: T) -> None:
        """It waits no more; nothing is done if it did not."""
        items = self._waiting.get(address)
        if items is None or item not in items:
            return
        items.remove(item)
        if not items:
            del self._waiting[address]

    def heads(self) -> Iterator[tuple[str, T]]:
        """The first of each address, in the order of their turns."""
        for address, items in self._waiting.items():
            yield address, items[0]

    def take(self, may: Callable[[str, T], bool]) -> T | None:
        """The first in turn for whom `may` holds, who waits no more; None without one."""
        for address, item in self.heads():
            if may(address, item):
                self.discard(address, item)
                if address in self._waiting:
                    self._waiting.move_to_end(address)
                return item
        return None
