"""The interface of both stateful operators."""

from collections.abc import Sequence
from typing import Protocol

from sharegroup.core.operators.output import Output


class Operator(Protocol):
    """Interface of an operator object, which processes the rows of one key in one micro-batch.

    The constructor restores the operator from the key's state, a text. The state is None for a key without state.

        restored  --run: the rows of a micro-batch, in their fixed order-->  effects  --dump-->  the new state

    Equal states, rows and times give equal effects and states.
    """

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Process the rows of a micro-batch (`core.operators.rows`) and return the effects.

        Both times are broker times at the start of the batch. `now_ms` is the time of the broker whose clock is ahead
        of the others. `earliest_ms` is the time of the broker whose clock is behind (None: `now_ms`).
        """

    def dump(self) -> str | None:
        """Return the state after the run, or None if it is empty."""
