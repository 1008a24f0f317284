"""Stores a history of lags in memory. Pages use it to show how a lag grows or falls. No I/O."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

#: Maximum number of stored snapshots. With one snapshot every 5 s, they cover a quarter of an hour.
MAX_SNAPSHOTS = 180


class Trend(NamedTuple):
    """The trend of one group's lag.

    `lags` are pairs (time in ms, lag), oldest first. `per_second` is the growth of the lag in records per second. It is
    negative if the lag falls, and None if it is not known.
    """

    lags: tuple[tuple[int, int], ...]
    per_second: float | None


class LagHistory:
    """The lags of all groups over time, from the last `limit` snapshots of the page's data."""

    def __init__(self, limit: int = MAX_SNAPSHOTS) -> None:
        self._snapshots: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=limit)

    def add(self, at_ms: int, lags: Mapping[str, int]) -> None:
        self._snapshots.append((at_ms, dict(lags)))

    def trend(self, group_id: str) -> Trend:
        seen = tuple((at_ms, lags[group_id]) for at_ms, lags in list(self._snapshots) if group_id in lags)
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return Trend(seen, None)
        return Trend(seen, (seen[-1][1] - seen[0][1]) * 1000 / (seen[-1][0] - seen[0][0]))


def polyline(seen: tuple[tuple[int, int], ...], width: int, height: int) -> str:
    """Return the points of an SVG polyline that shows lags over time. The lag axis starts at 0.

    `seen` are pairs (time in ms, lag). The result is empty if there are fewer than two pairs.
    """
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return ""
    begin, end, top = seen[0][0], seen[-1][0], max(1, *(lag for _, lag in seen))
    points = ((width * (at - begin) / (end - begin), height - height * lag / top) for at, lag in seen)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
