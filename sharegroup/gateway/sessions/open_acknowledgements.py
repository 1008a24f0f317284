"""Keeps acknowledgements whose outcome is not known yet. A member's leave must wait for its acknowledgements.

A client may send its last acknowledgements on one connection and leave its group on another. Kafka's partition leaders
accept such acknowledgements whether or not the member is still in its group. In this project, the job releases the
records of a member that leaves, so the job must receive the acknowledgements before the leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from sharegroup.gateway.groups.open_outcomes import OpenOutcomes
from sharegroup.protocol.share_session import SessionKey

#: How long a leave waits for acknowledgements that the gateway has not received yet.
GRACE_S = 0.2


class OpenAcknowledgements:
    """The acknowledgements whose outcome is not known yet, for all members of this gateway.

    In all methods, `process` identifies the member. `holds` returns whether a member has records to acknowledge.
    """

    def __init__(self, holds: Callable[[SessionKey], bool] = lambda _: False) -> None:
        self._holds = holds
        self._open: OpenOutcomes[SessionKey] = OpenOutcomes()
        #: Futures for which a member's leave waits while the member holds records. They complete when the member
        #: acknowledges or ends a session.
        self._changes: OpenOutcomes[SessionKey] = OpenOutcomes()

    def add(self, process: SessionKey, outcomes: Iterable[asyncio.Future[Any]]) -> None:
        """Add outcomes of acknowledgements. Each outcome is kept until it is done."""
        for outcome in outcomes:
            self._open.add(process, outcome)
        self.notify_change(process)

    def notify_change(self, process: SessionKey) -> None:
        """Let `wait` check the member again, because it has acknowledged records or closed a share session."""
        self._changes.complete(process)

    async def wait(self, process: SessionKey) -> None:
        """Wait until the outcomes of all acknowledgements of a member are known. Call it before the member leaves.

        The member may still send acknowledgements on another connection. If it holds records, it therefore has
        `GRACE_S` seconds to acknowledge them or to close its share session. The wait always ends, because each outcome
        has a timeout.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self._until_acknowledged(process)
        await self._open.wait([process])

    async def _until_acknowledged(self, process: SessionKey) -> None:
        while process not in self._open and self._holds(process):
            change = asyncio.get_running_loop().create_future()
            self._changes.add(process, change)
            await change
