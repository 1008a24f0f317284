"""Pages of long lists. No I/O."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

#: Default number of rows of a page.
ROWS = 50


class Page(NamedTuple, Generic[T]):
    """One page of a list. `number` is its number, from 1 to `pages`. `total` is the number of rows of the list."""

    rows: Sequence[T]
    number: int
    pages: int
    total: int


def page_of(rows: Sequence[T], number: int, size: int = ROWS) -> Page[T]:
    """Return the page with this number, or the nearest existing page. An empty list has one empty page."""
    count = max(1, -(-len(rows) // size))
    number = max(1, min(number, count))
    return Page(rows[(number - 1) * size : number * size], number, count, len(rows))


def whole_number(text: str | None, otherwise: int) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return otherwise
    return int(text)
