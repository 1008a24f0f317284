"""The identity of each client in its group: `share.client.id.as.instance.id`, a config of this project.

A share consumer generates a new member id at each start and cannot send a group instance id. If its group has this
config, the client id is the instance id of a static member (KIP-345). The id that the client sends then identifies only
its incarnation. The member id is the one that the group coordinator stores for the instance id and returns in each
heartbeat response. So a gateway has no state that can be lost: any other gateway learns the id from the next heartbeat.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.protocol.share_session import SessionKey

#: Incarnations kept in memory. An evicted one waits for its next heartbeat.
MAX_KEPT = 100_000


class Identity(NamedTuple):
    """The id of a member in its group, and for a static member the id of its incarnation."""

    member_id: str
    incarnation_id: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether the membership outlives the client incarnation (KIP-345)."""
        return self.incarnation_id is not None


class MemberIdentities:
    """The member identity of each incarnation, by group and sent member id. Must be created on the event loop."""

    def __init__(self, group_configs: GroupConfigs) -> None:
        self._group_configs = group_configs
        self._stored: OrderedDict[SessionKey, str] = OrderedDict()
        self._news = asyncio.Event()

    def instance_id_for(self, group_id: str, client_id: str) -> str | None:
        """Return the group instance id of a client. None for a dynamic member, or a client without a client id."""
        if not client_id.strip() or not self._group_configs.group_config(group_id).client_id_as_instance_id:
            return None
        return client_id

    def add(self, process: SessionKey, member_id: str) -> None:
        """Store the member id that the coordinator returned for an incarnation of a static member."""
        self._stored[process.shortened] = member_id
        self._stored.move_to_end(process.shortened)
        if len(self._stored) > MAX_KEPT:
            self._stored.popitem(last=False)
        self._news.set()
        self._news = asyncio.Event()

    def remove(self, process: SessionKey) -> None:
        """Remove an incarnation that has left or was replaced by another one."""
        self._stored.pop(process.shortened, None)

    def get(self, process: SessionKey) -> Identity:
        """Return the identity of an incarnation.

        If no member id is stored for it, it is a dynamic member, whose member id is the one that it has sent.
        """
        stored = self._stored.get(process.shortened)
        return Identity(process.member_id) if stored is None else Identity(stored, process.member_id)

    async def wait_until_known(self, process: SessionKey, client_id: str, timeout_s: float) -> None:
        """Wait until the identity of a client is known.

        Raises RequestError (SHARE_SESSION_NOT_FOUND, after which the client opens another session) if it is not known
        in time, because this gateway has answered no heartbeat of the incarnation or has evicted it.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while (
                    self.instance_id_for(process.group_id, client_id) is not None
                    and process.shortened not in self._stored
                ):
                    await self._news.wait()
        except TimeoutError:
            problem = f"static member {client_id} has sent no heartbeat as {process.member_id} to this gateway"
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, problem) from None
