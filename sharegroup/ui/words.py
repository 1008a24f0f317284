"""Formats numbers and times as text, and creates addresses of pages. No I/O."""

from datetime import UTC, datetime
from urllib.parse import urlencode

UNKNOWN = "–"


def number(value: int | None) -> str:
    """Return a number as text with thousands separators, `UNKNOWN` for None."""
    return UNKNOWN if value is None else f"{value:,}"


def moment(at: datetime | int | None, sep: str = " ", timespec: str = "seconds", zone: str = "") -> str:
    """Return a datetime, or ms since 1970, as text in UTC. `zone` is the suffix for UTC.

    Producers may send timestamps that are not valid dates. Such a timestamp is returned as a number of ms. If `at` is
    None, `UNKNOWN` is returned.
    """
    if at is None:
        return UNKNOWN
    try:
        time = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at} ms"
    return time.isoformat(sep, timespec).replace("+00:00", zone)


def age(at_ms: int | None, now_ms: int) -> str:
    """Return the time between `at_ms` and `now_ms` as text, in its two largest units."""
    return UNKNOWN if at_ms is None else duration(max(0, now_ms - at_ms) // 1000)


def duration(seconds: int) -> str:
    """Return a duration as text in its two largest units, such as "1 h 20 min"."""
    for large, length, small, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {large} {rest} {small}" if rest else f"{seconds // length} {large}"
    return f"{seconds} s"


def rate(per_second: float | None) -> str:
    """Return as text how many records per second a lag grows (+) or falls (-)."""
    if per_second is None:
        return UNKNOWN
    return "steady" if abs(per_second) < 0.05 else f"{per_second:+,.1f}/s"


def address(path: str, /, **query: object) -> str:
    """Return the address of a page with query parameters. Parameters with the value None are left out."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
