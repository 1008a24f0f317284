"""Maps clients to members of their groups if `share.client.id.as.instance.id`, a config of this project, is set.

A share consumer generates a new member id each time it starts, and cannot send a group instance id. If its group has
this config, the client id is the instance id of a static member (KIP-345). The member id that the client sends then
identifies only its *incarnation*, that is, one process of the member.

The group coordinator stores the actual member id for the instance id, and returns it in each heartbeat response.
Therefore nothing is lost if a gateway fails: another gateway receives the member id with the next heartbeat response.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.protocol.share_session import SessionKey

#: Most incarnations in memory. Fetches of an evicted incarnation wait for its next heartbeat.
MAX_KEPT = 100_000


class Identity(NamedTuple):
    """The identity of a client in its group.

    Attributes:
        member_id: the id of the member.
        incarnation_id: the member id that the client sent, if the member is static, else None.
    """

    member_id: str
    incarnation_id: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether the member is static, so that it stays in its group when the client restarts (KIP-345)."""
        return self.incarnation_id is not None


class MemberIdentities:
    """Maps each client process to its member. The key is the group and the member id that the process sent.

    For a dynamic member, this id is also the id of the member. A static member can have a different id, which the group
    coordinator returns. Must be created on the event loop.
    """

    def __init__(self, group_configs: GroupConfigs) -> None:
        self._group_configs = group_configs
        self._stored: OrderedDict[SessionKey, str] = OrderedDict()
        self._news = asyncio.Event()

    def instance_id_for(self, group_id: str, client_id: str) -> str | None:
        """Return the group instance id of a client; None for a dynamic member or an empty client id."""
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
        """Remove a client process that has left or was replaced by another one."""
        self._stored.pop(process.shortened, None)

    def get(self, process: SessionKey) -> Identity:
        """Return the identity of a client process.

        A process without a stored member id is a dynamic member. Its member id is the one that it sent.
        """
        stored = self._stored.get(process.shortened)
        return Identity(process.member_id) if stored is None else Identity(stored, process.member_id)

    async def wait_until_known(self, process: SessionKey, client_id: str, timeout_s: float) -> None:
        """Wait until the identity of a client process is known.

        Raises RequestError (SHARE_SESSION_NOT_FOUND) if that takes longer than `timeout_s`. The client then opens
        another session. The identity of a static member is unknown until this gateway has answered a heartbeat of the
        process. It is also unknown after its eviction from memory, until the next heartbeat.
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
