"""The interface of both stateful operators."""

from collections.abc import Sequence
from typing import Protocol

from sharegroup.core.operators.output import Output


class Operator(Protocol):
    """One run of one key in one micro-batch.

    The constructor restores the operator from the key's state: one JSON text, or None if the key has none.

        restored  --run: the rows of a micro-batch, in their fixed order-->  effects  --dump-->  the state to keep

    Equal states, rows and times give equal effects and states.
    """

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Process the rows of a micro-batch (`core.operators.rows`) and return the effects.

        Both times are broker times at the start of the batch: `now_ms` of the broker whose clock is ahead of the
        others, `earliest_ms` of the one whose clock is behind (None: `now_ms`).
        """

    def dump(self) -> str | None:
        """Return the state after the run, or None if it is empty."""
