"""Which group ids are groups of another kind upstream: classic, consumer (KIP-848) or streams groups (KIP-1071).

Kafka has one group for a name, whatever its kind. Upstream nobody knows our share groups, so we ask there before a
share group is created, and refuse requests that would create a group of another kind under a share group's name. The
answer is a help and not a lock: where the coordinator cannot say in time, there is none.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import OrderedDict
from collections.abc import Awaitable

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.share_group_names import ShareGroupNames
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.upstream.any_broker import from_any_broker
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.coordinators import Coordinator, find_coordinators
from sharegroup.gateway.wire.short_names import short
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import read_varint
from sharegroup.protocol.messages import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest

logger = logging.getLogger(__name__)

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
GROUP = 0
#: State of a classic group that is not there.
DEAD = "Dead"
#: How long an answer is kept, so that members that join together ask once. One who removes a group and joins again does
#: not wait long.
KEPT_S = 5.0
MAX_KEPT = 10_000
#: How long a joining member waits for the upstream coordinator.
PATIENCE_S = 2.0

_INT16 = struct.Struct(">h")


class UpstreamGroups:
    """Asks the upstream coordinators for groups of other kinds, and keeps the answers for a while. `stored` has the
    share groups that are there."""

    def __init__(self, cluster: UpstreamCluster, stored: StoredGroups) -> None:
        self._cluster, self._stored = cluster, stored
        self._share_groups = ShareGroupNames(stored)
        self._kept: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[str | None]] = {}

    async def check_joined(self, node_id: int, group_id: str) -> None:
        """Raises RequestError as Kafka's coordinator does for a group of another kind, when a member joins it or an
        administrator alters or deletes its share group offsets.

        A name is one group's: ours, where we have it already, whatever came to be upstream since.
        """
        kind = await self.other_kind(node_id, group_id)
        if kind is None or group_id in {found.group_id for found in await self._stored.listings()}:
            return
        logger.info("group %s is refused as a share group: upstream it is a %s group", group_id, kind)
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    async def is_only_share_group(self, node_id: int, group_id: str) -> bool:
        """Return whether the name is a share group's and no other group's.

        Both exist if the other group was created without a gateway; its members are served then.
        """
        return await self._share_groups.has(group_id) and await self.other_kind(node_id, group_id) is None

    async def is_share_group(self, node_id: int, group_id: str) -> bool:
        """The same by the tables as they are now.

        While they cannot be read, every group that the brokers do not have may be one.
        """
        try:
            is_stored = group_id in await self._stored.describe([group_id])
        except RequestError:
            is_stored = True
        return is_stored and await self.other_kind(node_id, group_id) is None

    async def other_kind(self, node_id: int, group_id: str) -> str | None:
        """`classic`, `consumer` or `streams`; None where there is no such group, or nobody can say.

        `node_id` is the broker that is asked first for the group's coordinator.
        """
        until, kind = self._kept.get(short(group_id), (float("-inf"), None))
        if asyncio.get_running_loop().time() < until:
            return kind
        task = self._asking.get(group_id)
        if task is None:
            task = self._asking[group_id] = asyncio.ensure_future(self._ask(node_id, group_id))
        return await asyncio.shield(task)  # one who goes away does not end it for the others

    async def _ask(self, node_id: int, group_id: str) -> str | None:
        kind = None
        try:
            kind = await asyncio.wait_for(self._look_up(node_id, group_id), PATIENCE_S)
        except (TimeoutError, UpstreamUnavailableError):
            pass
        finally:
            del self._asking[group_id]
        self._kept[short(group_id)] = asyncio.get_running_loop().time() + KEPT_S, kind
        self._kept.move_to_end(short(group_id))
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return kind

    async def _look_up(self, node_id: int, group_id: str) -> str | None:
        def find(asked: int) -> Awaitable[dict[str, Coordinator]]:
            return find_coordinators(self._cluster, asked, [group_id], GROUP)

        coordinator = (await from_any_broker(self._cluster, node_id, find))[group_id]
        if coordinator.error_code:
            return None
        is_one = {
            CLASSIC: self._is_classic(coordinator.node_id, group_id),
            CONSUMER: self._is_described(coordinator.node_id, ConsumerGroupDescribeRequest(group_ids=[group_id])),
            STREAMS: self._is_described(coordinator.node_id, StreamsGroupDescribeRequest(group_ids=[group_id])),
        }
        answers = await asyncio.gather(*is_one.values())
        return next((kind for kind, answer in zip(is_one, answers, strict=True) if answer), None)

    async def _is_classic(self, node_id: int, group_id: str) -> bool:
        try:
            answer = await self._cluster.ask(node_id, DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
        except UpstreamUnavailableError:
            return False
        return any(group.error_code == ErrorCode.NONE and group.group_state != DEAD for group in answer.groups)

    async def _is_described(self, node_id: int, request: ApiMessage) -> bool:
        """Whether the broker has a group to describe, of the kind that the request is for; many do not know it."""
        try:
            answer = await self._cluster.ask(node_id, request, DescribedGroup, 0)
        except UpstreamUnavailableError:
            return False
        return answer.error_code == ErrorCode.NONE


class DescribedGroup:
    """The error code of the one group of a response, in place of kafka-python's class: all members may be behind it."""

    API_KEY: int = ConsumerGroupDescribeRequest.API_KEY

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code

    @classmethod
    def flexible_version_q(cls, version: int) -> bool:  # noqa: ARG003
        """Whether the response has the flexible header, as kafka-python's classes tell it."""
        return True

    @classmethod
    def decode(cls, data: memoryview, version: int) -> DescribedGroup:  # noqa: ARG003
        """Read a response from behind its header, as kafka-python's classes do."""
        _, position = read_varint(data, 4)  # the throttle time, and how many groups there are
        return cls(int(_INT16.unpack_from(data, position)[0]))
