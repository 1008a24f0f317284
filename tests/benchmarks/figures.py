"""What a benchmark yields, and the arithmetic of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    `ratio` is measured / baseline unless the benchmark says otherwise; `reach` says in words what is aimed at, and
    `reached` whether it is (None: the line is for information).
    """

    benchmark: str
    what: str
    measured: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    reach: str = ""
    reached: bool | None = None
    note: str = ""


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` % of the values do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    """The median; NaN of nothing."""
    return statistics.median(values) if values else math.nan
