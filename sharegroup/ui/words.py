"""Numbers and times as the pages say them, and addresses of pages. PURE."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

UNKNOWN = "–"


def number(value: int | None) -> str:
    """With commas between thousands."""
    return UNKNOWN if value is None else f"{value:,}"


def moment(at_ms: int | None) -> str:
    """A time in ms since 1970, UTC, to the second; a number that no calendar has, as producers may send, in ms."""
    if at_ms is None:
        return UNKNOWN
    try:
        return time_text(datetime.fromtimestamp(at_ms / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def time_text(at: datetime | None) -> str:
    """A time, in UTC, to the second."""
    return UNKNOWN if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def age(at_ms: int | None, now_ms: int) -> str:
    """How long ago, in its two largest units."""
    return UNKNOWN if at_ms is None else duration(max(0, now_ms - at_ms) // 1000)


def duration(seconds: int) -> str:
    """In its two largest units."""
    for large, length, small, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {large} {rest} {small}" if rest else f"{seconds // length} {large}"
    return f"{seconds} s"


def rate(per_second: float | None) -> str:
    """How fast a lag grows (+) or falls (-)."""
    if per_second is None:
        return UNKNOWN
    return "steady" if abs(per_second) < 0.05 else f"{per_second:+,.1f}/s"


def address(path: str, /, **query: object) -> str:
    """A page's; what is None is left out."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
