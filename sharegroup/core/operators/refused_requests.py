"""Request rows that this job cannot serve. Each is read, rejected, and answered if that is possible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.protocol.rows.probe import PROBE


class RefusedRequests(ABC):
    """The operator of a key that has only such rows. It keeps no state."""

    def __init__(self, key: str) -> None:
        self._key = key

    @abstractmethod
    def _refuse(self, request: rows.RequestRow, output: Output) -> None:
        """Reject a request, and respond if the requester is known."""

    def run(self, lines: Sequence[str], now_ms: int, earliest_ms: int | None = None) -> Output:
        """Process the rows of a micro-batch and return the effects."""
        output = Output(self._key, now_ms)
        for line in rows.in_order(lines):
            if line.request is not None:
                output.read(line.request)
                if line.request.value != PROBE:
                    self._refuse(line.request, output)
        return output

    def dump(self) -> str | None:
        """Return None, because there is no state."""
        return None
