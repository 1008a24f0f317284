"""Parts of long lists. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

#: Rows of a page.
ROWS = 50


class Page(NamedTuple, Generic[T]):
    """Some rows of a list; `number` counts from 1 to `pages`."""

    rows: Sequence[T]
    number: int
    pages: int
    total: int


def page_of(rows: Sequence[T], number: int, size: int = ROWS) -> Page[T]:
    """The page of this number, or the nearest that there is; an empty list has one empty page."""
    count = max(1, -(-len(rows) // size))
    number = max(1, min(number, count))
    return Page(rows[(number - 1) * size : number * size], number, count, len(rows))


def whole_number(text: str | None, otherwise: int) -> int:
    """A number from a query, `otherwise` where it is none."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return otherwise
    return int(text)
