"""A queue that serves client addresses in turn (round robin). Items of the same address keep their order. No I/O.

For example, if one address has a thousand items in the queue, an item of another address waits for only one of them.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairTurns(Generic[T]):
    """A queue of items, each of which belongs to a client address. The addresses are served in turn.

    When `pop_first` removes an item, its address moves to the end of the order.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, address: str, item: T) -> None:
        self._waiting.setdefault(address, deque()).append(item)

    def discard(self, address: str, item: T) -> None:
        items = self._waiting.get(address)
        if items is None or item not in items:
            return
        items.remove(item)
        if not items:
            del self._waiting[address]

    def first_items(self) -> Iterator[tuple[str, T]]:
        """Yield (address, first item of the address), in the order in which the addresses are served."""
        for address, items in self._waiting.items():
            yield address, items[0]

    def pop_first(self, may: Callable[[str, T], bool]) -> T | None:
        """Remove and return the next item for which `may(address, item)` is True. Return None if there is none.

        Only the first item of each address is considered.
        """
        for address, item in self.first_items():
            if may(address, item):
                self.discard(address, item)
                if address in self._waiting:
                    self._waiting.move_to_end(address)
                return item
        return None
