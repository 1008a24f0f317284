"""Leaves that were answered before the job has run them, by group: descriptions of the group wait for the job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

__all__ = ["OpenLeaves"]


class OpenLeaves:
    """The open leaves of all members of this gateway. On one event loop."""

    def __init__(self) -> None:
        self._open: dict[str, set[asyncio.Future[None]]] = {}

    def add(self, group_id: str, outcome: asyncio.Future[None]) -> None:
        """Keep a leave until its outcome is done. The outcome raises nothing, and ends by itself."""
        self._open.setdefault(group_id, set()).add(outcome)
        outcome.add_done_callback(lambda done: self._remove(group_id, done))

    async def wait(self, group_ids: Iterable[str] | None = None) -> None:
        """Wait until the leaves that are open now, of these groups or of all, have been run."""
        groups = self._open if group_ids is None else group_ids
        outcomes = {outcome for group_id in groups for outcome in self._open.get(group_id, ())}
        if outcomes:
            await asyncio.wait(outcomes)

    def _remove(self, group_id: str, outcome: asyncio.Future[None]) -> None:
        outcomes = self._open[group_id]
        outcomes.discard(outcome)
        if not outcomes:
            del self._open[group_id]
