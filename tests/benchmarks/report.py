"""The table on the terminal and the JSON beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.figures import Figure

_WIDTH = 160


def print_report(about: Mapping[str, object], figures: Sequence[Figure]) -> None:
    """The machine in a line, then a table of the figures, then what has to be said about them."""
    console = Console(width=_WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    table = Table("benchmark", "what", "measured", "baseline", "ratio", "reach", "reached", show_lines=False)
    for figure in figures:
        table.add_row(
            figure.benchmark,
            figure.what,
            _value(figure.measured, figure.unit),
            _value(figure.baseline, figure.unit),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.reach,
            {True: "yes", False: "NO", None: ""}[figure.reached],
        )
    console.print(table)
    for note in dict.fromkeys(f"{figure.benchmark}: {figure.note}" for figure in figures if figure.note):
        console.print(note, highlight=False, markup=False)


def write_report(
    path: Path, about: Mapping[str, object], figures: Sequence[Figure], details: Mapping[str, object]
) -> None:
    """The same as JSON, and each benchmark's own details (every repeat, the parts of a batch)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": dict(about), "figures": [asdict(figure) for figure in figures], "details": dict(details)}
    path.write_text(json.dumps(_finite(content), indent=2) + "\n")


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if math.isnan(value):
        return "nothing"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _finite(value: object) -> object:
    """The value with None for NaN, which JSON does not have."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
