"""Determines which of the requested partitions a node serves to a caller, and the errors of the other ones."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.protocol.share_session import TopicIdPartition
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller


class ShareTopics:
    """Checks partitions against the metadata of the upstream cluster and the caller's right to read the topic."""

    def __init__(self, cluster: UpstreamCluster, security: Authorization) -> None:
        self._cluster, self._security = cluster, security

    async def refresh_unless_known(self, keys: Iterable[TopicIdPartition], node_id: int | None = None) -> None:
        """Refresh the metadata if the leader of any of these partitions is unknown.

        If `node_id` is given, also refresh the metadata if the leader of any of them is another node.
        """
        leaders = [self._cluster.leader(*key) for key in keys]
        if any(leader is None or (node_id is not None and leader.node_id != node_id) for leader in leaders):
            await self._cluster.refresh()

    def partition_errors(
        self, caller: Caller, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, ErrorCode]:
        """Return {partition: error} for those partitions that the caller cannot fetch from the node it is connected to.

        A partition has an error if it is unknown, if another node leads it, or if the caller may not read its topic.
        """
        may_read = lru_cache(None)(partial(self._security.may_read, caller))
        codes = {key: self._fault(caller, key, may_read) for key in partitions}
        return {key: code for key, code in codes.items() if code is not None}

    def _fault(self, caller: Caller, key: TopicIdPartition, may_read: Callable[[str], bool]) -> ErrorCode | None:
        topic = self._cluster.topic_by_id(key.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        leader = topic.leaders.get(key.partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader.node_id != caller.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not may_read(topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None
