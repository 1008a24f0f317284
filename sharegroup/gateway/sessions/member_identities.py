"""Who the members of wire clients are in their groups: `share.client.id.as.instance.id` (ours).

A wire client makes itself a member id at each start, and cannot send a group instance id. Where its group has that
config, its client id is the name of a static member (KIP-345): the id that it sends only says which process it is, and
the member's own id is the one that the group coordinator has stored for the name, and tells with each answer. So what a
gateway knows is lost with it, and any other hears it again with the next heartbeat.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.sessions.share_session import SessionKey

#: Processes that are remembered; one that was forgotten waits for its next heartbeat.
MAX_REMEMBERED = 100_000


class Identity(NamedTuple):
    """The member's id in its group, and of a static one the process that speaks as it."""

    member_id: str
    incarnation_id: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether it outlives its processes (KIP-345)."""
        return self.incarnation_id is not None


class MemberIdentities:
    """Which member each process is, by its group and the id that it sends. To be made on the event loop."""

    def __init__(self, group_configs: GroupConfigs) -> None:
        self._group_configs = group_configs
        self._stored: OrderedDict[SessionKey, str] = OrderedDict()
        self._news = asyncio.Event()

    def name_of(self, group_id: str, client_id: str) -> str | None:
        """The group instance id of a client; None: a dynamic member, as is one without a client id."""
        if not client_id.strip() or not self._group_configs.group_config(group_id).client_id_as_instance_id:
            return None
        return client_id

    def joined(self, process: SessionKey, member_id: str) -> None:
        """The coordinator has told the id of the static member that a process is."""
        self._stored[process.shortened] = member_id
        self._stored.move_to_end(process.shortened)
        if len(self._stored) > MAX_REMEMBERED:
            self._stored.popitem(last=False)
        self._news.set()
        self._news = asyncio.Event()

    def left(self, process: SessionKey) -> None:
        """The process is no member: it has left, or another one has taken its place."""
        self._stored.pop(process.shortened, None)

    def of(self, process: SessionKey) -> Identity:
        """The member that a process is: a dynamic one by the id that it sends, if nobody has told otherwise."""
        stored = self._stored.get(process.shortened)
        return Identity(process.member_id) if stored is None else Identity(stored, process.member_id)

    async def known(self, process: SessionKey, client_id: str, timeout_s: float) -> None:
        """Wait until it is known who a client is.

        Raises RequestError (SHARE_SESSION_NOT_FOUND: the client opens another session) where it is not, or not any
        more: no heartbeat of it has been answered here.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self.name_of(process.group_id, client_id) is not None and process.shortened not in self._stored:
                    await self._news.wait()
        except TimeoutError:
            problem = f"static member {client_id} has sent no heartbeat as {process.member_id} here"
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, problem) from None
