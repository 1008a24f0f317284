"""Lags that were seen, look by look: what is kept in memory for the trend. PURE."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

#: Looks that are remembered; with one each 10 s, half an hour.
MOST_LOOKS = 180


class Trend(NamedTuple):
    """Lags of one group by time, oldest first, and how fast the lag grows, in records a second; None: not known yet."""

    lags: tuple[tuple[int, int], ...]
    per_second: float | None


class LagHistory:
    """The newest looks; the groups of which nothing is known in any of them are forgotten with it."""

    def __init__(self, most: int = MOST_LOOKS) -> None:
        self._looks: deque[tuple[int, Mapping[str, int]]] = deque(maxlen=most)

    def add(self, at_ms: int, lags: Mapping[str, int]) -> None:
        """A look: the groups' lags, where they are known."""
        self._looks.append((at_ms, dict(lags)))

    def trend(self, group_id: str) -> Trend:
        """What was seen of a group."""
        seen = tuple((at_ms, lags[group_id]) for at_ms, lags in list(self._looks) if group_id in lags)
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return Trend(seen, None)
        return Trend(seen, (seen[-1][1] - seen[0][1]) * 1000 / (seen[-1][0] - seen[0][0]))


def polyline(seen: tuple[tuple[int, int], ...], width: int, height: int) -> str:
    """Points of an SVG polyline of these lags, from 0 up; "" for fewer than two."""
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return ""
    begin, end, top = seen[0][0], seen[-1][0], max(1, *(lag for _, lag in seen))
    points = ((width * (at - begin) / (end - begin), height - height * lag / top) for at, lag in seen)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
