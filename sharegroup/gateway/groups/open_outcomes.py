"""Requests whose outcome is not known yet and that other requests wait for, for example leaves, by group.

Their clients may already have a response.
"""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class OpenOutcomes(Generic[K]):
    """The outcomes that are not known yet, by key. For one event loop."""

    def __init__(self) -> None:
        self._open: dict[K, set[asyncio.Future[Any]]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._open

    def add(self, key: K, outcome: asyncio.Future[Any]) -> None:
        """Keep an outcome until it is done. It must end without the help of this class."""
        if not outcome.done():
            self._open.setdefault(key, set()).add(outcome)
            outcome.add_done_callback(lambda done: self._remove(key, done))

    async def wait(self, keys: Iterable[K] | None = None) -> None:
        """Wait for the outcomes that are open now, of these keys or of all."""
        chosen = self._open if keys is None else keys
        outcomes = {outcome for key in chosen for outcome in self._open.get(key, ())}
        if outcomes:
            await asyncio.wait(outcomes)

    def complete(self, key: K) -> None:
        """Complete the outcomes of a key that nothing else completes."""
        for outcome in self._open.get(key, ()):
            if not outcome.done():
                outcome.set_result(None)

    def _remove(self, key: K, outcome: asyncio.Future[Any]) -> None:
        outcomes = self._open[key]
        outcomes.discard(outcome)
        if not outcomes:
            del self._open[key]


class OpenLeaves(OpenOutcomes[str]):
    """Leaves, by group, that were answered before the job processed them; descriptions of the group wait for them."""
