"""What both stateful operators are to whoever runs them: one run of one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharegroup.core.operators.output import Output


class Operator(Protocol):
    """Restored from the key's state by its constructor: one JSON text, None for a key that has none.

        restored  --run: the rows of a micro-batch, in their fixed order-->  effects  --dump-->  the state to keep

    Equal states, rows and times give equal effects and states.
    """

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Take in the rows of a micro-batch (`core.operators.rows`) and return its effects.

        `now_ms` and `earliest_ms` (the same if None) are the brokers' time when the batch began: that of the broker
        that is ahead of the others, and of the one that is behind.
        """

    def dump(self) -> str | None:
        """The state after that, None when there is nothing to keep."""
