"""Group ids that belong to other types of groups upstream: classic, consumer (KIP-848) or streams groups (KIP-1071).

In Kafka, a group id belongs to only one group, whatever its type. The upstream brokers do not store our share groups.
The gateway therefore queries them before a share group is created. It also rejects requests that would create a group
of another type under a share group's id. Both checks are best effort: they may miss a group that is created at the same
time. If the brokers do not respond in time, the gateway assumes that there is no other group.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import OrderedDict
from functools import partial

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.share_group_names import ShareGroupNames
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.coordinators import find_coordinators
from sharegroup.gateway.upstream.first_available_broker import request_any_broker
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import read_varint
from sharegroup.log_fields import LogFields
from sharegroup.protocol.messages import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest
from sharegroup.protocol.short_names import shorten_name

logger = logging.getLogger(__name__)

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
GROUP = 0
#: The state that DescribeGroups returns for a classic group that does not exist.
DEAD = "Dead"
#: How long a result is reused, so that members that join at the same time cause one query. The time is short, because a
#: client that deletes a group upstream may have to wait this long before it can join a share group of that name.
KEPT_S = 5.0
MAX_KEPT = 10_000
#: How long a joining member waits for the upstream coordinator.
LOOKUP_TIMEOUT_S = 2.0

_INT16 = struct.Struct(">h")


class UpstreamGroups:
    """The groups of other types at the upstream brokers. The coordinators are queried, and the results are cached.

    `stored` returns the existing share groups.
    """

    def __init__(self, cluster: UpstreamCluster, stored: StoredGroups) -> None:
        self._cluster, self._stored = cluster, stored
        self._share_groups = ShareGroupNames(stored)
        self._kept: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._lookups: dict[str, asyncio.Task[str | None]] = {}

    async def check_joined(self, node_id: int, group_id: str) -> None:
        """Raise RequestError (GROUP_ID_NOT_FOUND), as Kafka does, if only a group of another type has this id.

        Called when a member joins, or when an administrator alters or deletes share group offsets. An existing share
        group keeps its id, even if a group of another type was created upstream since then.

        Raises RequestError (COORDINATOR_NOT_AVAILABLE) if the brokers have such a group and the tables cannot be read.
        """
        kind = await self.other_kind(node_id, group_id)
        if kind is None or group_id in {found.group_id for found in await self._stored.listings()}:
            return
        logger.info(
            "rejected a request for share group %(group)s: the brokers have a %(detail)s group of this name",
            LogFields(group=group_id, detail=kind),
        )
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    async def is_only_share_group(self, node_id: int, group_id: str) -> bool:
        """Return whether a share group has this id and no other group does.

        Two groups can have the same id if the other group was created without a gateway. The result is then False, so
        that requests of the other group's members are forwarded.
        """
        return await self._share_groups.has(group_id) and await self.other_kind(node_id, group_id) is None

    async def is_share_group(self, node_id: int, group_id: str) -> bool:
        """Return the same as `is_only_share_group`, but read the tables at each call.

        While the tables cannot be read, the result is True if the brokers have no group with this id.
        """
        try:
            is_stored = group_id in await self._stored.describe([group_id])
        except RequestError:
            is_stored = True
        return is_stored and await self.other_kind(node_id, group_id) is None

    async def other_kind(self, node_id: int, group_id: str) -> str | None:
        """Return the type of the upstream group with this id: `classic`, `consumer` or `streams`.

        Returns None if no such group exists or the coordinator cannot be queried in time. `node_id` is the broker at
        which the coordinator is looked up first.
        """
        until, kind = self._kept.get(shorten_name(group_id), (float("-inf"), None))
        if asyncio.get_running_loop().time() < until:
            return kind
        task = self._lookups.get(group_id)
        if task is None:
            task = self._lookups[group_id] = asyncio.ensure_future(self._lookup_and_keep(node_id, group_id))
        return await asyncio.shield(task)  # a cancelled caller does not cancel it for the others

    async def _lookup_and_keep(self, node_id: int, group_id: str) -> str | None:
        kind = None
        try:
            kind = await asyncio.wait_for(self._lookup(node_id, group_id), LOOKUP_TIMEOUT_S)
        except (TimeoutError, UpstreamUnavailableError):
            pass
        finally:
            del self._lookups[group_id]
        self._kept[shorten_name(group_id)] = asyncio.get_running_loop().time() + KEPT_S, kind
        self._kept.move_to_end(shorten_name(group_id))
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return kind

    async def _lookup(self, node_id: int, group_id: str) -> str | None:
        find = partial(find_coordinators, self._cluster, keys=[group_id], key_type=GROUP)
        coordinator = (await request_any_broker(self._cluster, node_id, find))[group_id]
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
        """Return whether a broker can describe the group in `request`. It can if the group has the request's type.

        The result is also False if the broker does not support the API of the request, as many brokers, or does not
        respond.
        """
        try:
            answer = await self._cluster.ask(node_id, request, DescribedGroup, 0)
        except UpstreamUnavailableError:
            return False
        return answer.error_code == ErrorCode.NONE


class DescribedGroup:
    """The only group in a describe response. Only the error code of the group is decoded.

    kafka-python's class would decode all members of the group.
    """

    API_KEY: int = ConsumerGroupDescribeRequest.API_KEY

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code

    @classmethod
    def flexible_version_q(cls, version: int) -> bool:  # noqa: ARG003
        """Return whether the response has a flexible header; kafka-python's decoder calls this method."""
        return True

    @classmethod
    def decode(cls, data: memoryview, version: int) -> DescribedGroup:  # noqa: ARG003
        """Decode the bytes of a response after its header; kafka-python's decoder calls this method."""
        _, position = read_varint(data, 4)  # the throttle time, and the number of groups
        return cls(int(_INT16.unpack_from(data, position)[0]))
