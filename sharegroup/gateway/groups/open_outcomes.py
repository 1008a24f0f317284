"""Keeps requests whose outcome is not known yet, such as leaves of a group. Other requests can wait for the outcome.

The client of such a request may already have received a response.
"""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class OpenOutcomes(Generic[K]):
    """The requests whose outcome is not known yet, as futures by key. Other requests can wait for them.

    Must be used on one event loop.
    """

    def __init__(self) -> None:
        self._open: dict[K, set[asyncio.Future[Any]]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._open

    def add(self, key: K, outcome: asyncio.Future[Any]) -> None:
        """Keep an outcome until it is done. The caller must make sure that it completes."""
        if not outcome.done():
            self._open.setdefault(key, set()).add(outcome)
            outcome.add_done_callback(lambda done: self._remove(key, done))

    async def wait(self, keys: Iterable[K] | None = None) -> None:
        """Wait for the outcomes of `keys` (None: all keys), except those that are added after this call."""
        chosen = self._open if keys is None else keys
        outcomes = {outcome for key in chosen for outcome in self._open.get(key, ())}
        if outcomes:
            await asyncio.wait(outcomes)

    def complete(self, key: K) -> None:
        """Complete all open outcomes of a key with None. Must be used only if nothing else completes them."""
        for outcome in self._open.get(key, ()):
            if not outcome.done():
                outcome.set_result(None)

    def _remove(self, key: K, outcome: asyncio.Future[Any]) -> None:
        outcomes = self._open[key]
        outcomes.discard(outcome)
        if not outcomes:
            del self._open[key]


class OpenLeaves(OpenOutcomes[str]):
    """Leaves that were answered but not processed by the job yet, by group. Descriptions of a group wait for them."""
