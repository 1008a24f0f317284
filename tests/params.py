"""Parameters of tests that run in `make test-all` only."""

from __future__ import annotations

from typing import Any

import pytest


def thorough(*values: Any) -> list[Any]:
    """Return the values as parameters with the marker `thorough`; a tuple has one value for each argument."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough) for value in values
    ]
