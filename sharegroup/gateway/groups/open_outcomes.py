"""Requests whose outcome is not known yet, for example leaving a group. Other requests can wait for the outcome.

The client of a request whose outcome is not known may already have received a response.
"""

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class OpenOutcomes(Generic[K]):
    """Futures of outcomes that are not known yet, each with a key. Several outcomes may have the same key.

    Must be used on one event loop.
    """

    def __init__(self) -> None:
        self._open: dict[K, set[asyncio.Future[Any]]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._open

    def add(self, key: K, outcome: asyncio.Future[Any]) -> None:
        """Keep the future `outcome` under `key` until it is done. The caller must make sure that it completes."""
        if not outcome.done():
            self._open.setdefault(key, set()).add(outcome)
            outcome.add_done_callback(lambda done: self._remove(key, done))

    async def wait(self, keys: Iterable[K] | None = None) -> None:
        """Wait until all current outcomes of `keys` (None: of all keys) are done. Later outcomes are not waited for."""
        chosen = self._open if keys is None else keys
        outcomes = {outcome for key in chosen for outcome in self._open.get(key, ())}
        if outcomes:
            await asyncio.wait(outcomes)

    def complete(self, key: K) -> None:
        """Set the result of all open outcomes of a key to None. Must be used only if nothing else completes them."""
        for outcome in self._open.get(key, ()):
            if not outcome.done():
                outcome.set_result(None)

    def _remove(self, key: K, outcome: asyncio.Future[Any]) -> None:
        outcomes = self._open[key]
        outcomes.discard(outcome)
        if not outcomes:
            del self._open[key]


class OpenLeaves(OpenOutcomes[str]):
    """Outcomes of members' requests to leave a group. The key is the group id.

    Such a request has been answered, but the job has not processed it yet. Requests that list or describe the group
    wait for the outcome.
    """
