"""The share sessions of all nodes while they are served: which one a member fetches a partition through, and their end.

A member has a session at each node that leads some of its partitions. When a leader moves, its partition goes from one
session to another, and either may end first: what the member holds by then goes along, so that it outlives the one that
it has left, and acknowledgements of it are good in either.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.records.batch_cache import BatchCache
from sharegroup.gateway.records.log_reader import LogReader
from sharegroup.gateway.sessions.credit import PART_OF_LOCK
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.member_session import MemberSession
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.gateway.sessions.share_session import (
    AcknowledgeContext,
    ContextKind,
    FetchContext,
    SessionKey,
    ShareSession,
    ShareSessionCache,
    TopicIdPartition,
)
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.protocol.rows.broadcasts import (
    Broadcast,
    MemberLeftBroadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
)
from sharegroup.protocol.topic_ids import topic_id_of, topic_id_text
from sharegroup.types import SharePartitionKey

logger = logging.getLogger(__name__)

#: How long a member's demand for records stands at the job before it is renewed.
DEMAND_WAIT_MS = 300_000
#: A demand whose answer is so late was lost with the job; it is sent again.
LOST_AFTER_MS = 10_000
#: What a member will take in this time stays with it when others wait, who have done so for as long: about two
#: micro-batches.
KEEP_MS = 500
#: How often the locks of share-partitions are shared out anew.
SHARE_INTERVAL_MS = 500


class MemberSessions:
    """Finds or makes the session that serves a member, and ends sessions."""

    def __init__(
        self,
        config: Config,
        group_configs: GroupConfigs,
        job: JobChannel,
        cluster: UpstreamCluster,
        leases: MemberLeases,
        identities: MemberIdentities,
    ) -> None:
        self._config, self._group_configs, self._job, self._cluster = config, group_configs, job, cluster
        self._leases, self._identities = leases, identities
        self._share_again_ms = 0
        self._cache = BatchCache(config.gateway.batch_cache_max_bytes)
        self._reader = LogReader(cluster, self._cache)
        self._nodes: dict[int, ShareSessionCache] = {}
        self._served: dict[ShareSession, MemberSession] = {}
        #: The session that a member has fetched a partition through last, which has its part of the share-partition.
        self._owners: dict[tuple[SessionKey, TopicIdPartition], ShareSession] = {}
        #: Called with a member when one of its sessions has ended.
        self.on_end: Callable[[SessionKey], None] = lambda _: None
        #: Whether members get no more records here.
        self.is_draining = False
        job.on_broadcast(self._heard)
        job.on_wanted(self._wanted_elsewhere)
        cluster.watch(self._leader_changed)

    def node(self, node_id: int) -> ShareSessionCache:
        """The sessions at one node."""
        if node_id not in self._nodes:
            self._nodes[node_id] = ShareSessionCache(self._config.gateway.max_share_sessions)
        return self._nodes[node_id]

    def check_open(self, node_id: int, context: FetchContext | AcknowledgeContext) -> None:
        """Raise RequestError (SHARE_SESSION_NOT_FOUND) when the session has ended since the request came."""
        session = context.session
        if context.kind is not ContextKind.FINAL and self.node(node_id).get(*session.key) is not session:
            problem = f"the share session of member {session.key.member_id} ended meanwhile"
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, problem)

    def serve(self, session: ShareSession) -> MemberSession:
        """The session while it is served, made if need be."""
        if session not in self._served:
            self._served[session] = MemberSession(
                session,
                self._reader,
                lambda key, arrived: self._member_partition(session, key, arrived),
                lambda: self._group_configs.group_config(session.key.group_id),
            )
        return self._served[session]

    def move_to(self, session: ShareSession, partitions: Iterable[TopicIdPartition]) -> set[TopicIdPartition]:
        """The member fetches these through this session now, which is served.

        Returns those that came from another of its sessions, with what the member holds of them.
        """
        moved = set()
        for key in partitions:
            last = self._owners.get((session.key, key))
            if last is not session:
                if last is not None:
                    self._served[session].take_over(key, self._served[last].hand_over(key))
                    moved.add(key)
                self._served[session].partition(key)
                self._owners[session.key, key] = session
        return moved

    def owns(self, session: ShareSession, key: TopicIdPartition) -> bool:
        """Whether this is the session that the member has fetched the partition through last."""
        return self._owners.get((session.key, key)) is session

    def holder(self, session: ShareSession, key: TopicIdPartition) -> MemberPartition:
        """The member's part of a share-partition, in whichever of its sessions it is."""
        owner = self._owners.get((session.key, key), session)
        return self.serve(owner).partition(key)

    def end(self, session: ShareSession, is_final: bool = False) -> None:
        """The session is over: what the member holds through it is released, as by Kafka's leaders.

        A partition that the member has forgotten, or fetches at another node by now, keeps its locks. So does all of a
        static member, for its next session, unless its client has ended this one (`is_final`).
        """
        served = self._served.pop(session, None)
        if served is None:
            return
        ending = [key for key in served.partitions if self._owners.get((session.key, key)) is session]
        for key in ending:
            del self._owners[session.key, key]
        served.close(session.partitions.keys() & ending, is_final)
        self.on_end(session.key)

    def disconnected(self, connection_id: int) -> None:
        """A connection was closed: its sessions end."""
        for sessions in self._nodes.values():
            for session in sessions.evict_connection(connection_id):
                self.end(session)

    def drain(self) -> None:
        """The gateway ends: members get no more records here, and what was acquired ahead of them goes back."""
        self.is_draining = True
        for served in self._served.values():
            served.drain()

    def holds(self, connection_id: int) -> bool:
        """Whether members of this connection have records that they may still acknowledge."""
        return self._hold(served for served in self._served.values() if served.session.connection_id == connection_id)

    def has_records(self, process: SessionKey) -> bool:
        """Whether a member has records that it may still acknowledge."""
        sessions = (cache.get(*process) for cache in self._nodes.values())
        return self._hold(self._served[found] for found in sessions if found is not None and found in self._served)

    def _hold(self, members: Iterable[MemberSession]) -> bool:
        now_ms = self._job.now_ms()
        held = (held for served in members for part in served.parts for _, _, held in part.holdings)
        return any(now_ms < each.lock_deadline_ms for each in held)

    def close(self) -> None:
        """End all sessions: what their members hold goes back."""
        for session in list(self._served):
            self.end(session)

    def upkeep(self) -> None:
        """Give back what was acquired ahead and is not wanted."""
        now_ms = self._job.now_ms()
        least_idle_ms = self._config.gateway.read_ahead_idle_ms
        for served in self._served.values():
            lock_ms = self._group_configs.group_config(served.session.key.group_id).record_lock_duration_ms
            served.upkeep(now_ms, least_idle_ms, int(PART_OF_LOCK * lock_ms))
        parts = [part for served in self._served.values() for part in served.parts]
        if now_ms >= self._share_again_ms:
            self._share_again_ms = now_ms + SHARE_INTERVAL_MS
            self._share_locks(parts)
        waiting = {part.key for part in parts if part.read_ahead.has_waited(now_ms, KEEP_MS)}
        for part in parts:
            if part.read_ahead.buffered and part.key in waiting:
                part.give_back(part.read_ahead.spare(now_ms, KEEP_MS))

    def _share_locks(self, parts: Sequence[MemberPartition]) -> None:
        in_use = [part for part in parts if part.is_in_use]
        members = Counter(part.key for part in in_use)
        for part in in_use:
            locks = self._group_configs.group_config(part.key.group_id).partition_max_record_locks
            part.read_ahead.credit.share_locks(locks, members[part.key])

    # -- metrics -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[int, ShareSessionCache]:
        """The sessions of each node that has had some."""
        return dict(self._nodes)

    @property
    def records_ahead(self) -> int:
        """Records that were acquired for members, and are not on their way to them."""
        served = list(self._served.values())
        return sum(part.read_ahead.buffered for member in served for part in list(member.parts))

    @property
    def cached_bytes(self) -> int:
        """Memory of record batches."""
        return self._cache.byte_count

    # -- what the job tells everybody ----------------------------------------------------------------------------------

    def _heard(self, row: Broadcast) -> None:
        match row:
            case NewLeaderBroadcast():
                for served in self._served.values():
                    served.new_leader()
            case MemberLeftBroadcast():
                self._member_left(row.group_id, row.member_id)
            case TopicDeletedBroadcast():
                try:
                    self._topic_deleted(topic_id_of(row.topic_id))
                except ValueError:
                    logger.warning("the job tells of a deleted topic with the id %r", row.topic_id)

    def _member_left(self, group_id: str, member_id: str) -> None:
        self._leases.end(group_id, member_id)
        for served in self._served.values():
            for part in served.parts:
                if (part.key.group_id, part.member_id) == (group_id, member_id):
                    part.member_left()

    def _topic_deleted(self, topic_id: UUID) -> None:
        self._cluster.deleted(topic_id)
        for served in self._served.values():
            served.topic_deleted(topic_id)
        for owner in [owner for owner in self._owners if owner[1].topic_id == topic_id]:
            del self._owners[owner]

    def _leader_changed(self, topic_id: UUID, partition: int) -> None:
        for served in self._served.values():
            served.look_again(TopicIdPartition(topic_id, partition))

    def _wanted_elsewhere(self, key: SharePartitionKey) -> None:
        """Members of another gateway wait: what ours will not have taken soon is for them."""
        now_ms = self._job.now_ms()
        for served in self._served.values():
            for part in served.parts:
                if part.key == key:
                    part.give_back(part.read_ahead.spare(now_ms, KEEP_MS))

    def _member_partition(
        self, session: ShareSession, key: TopicIdPartition, arrived: Callable[[], None]
    ) -> MemberPartition:
        topic = self._cluster.topic_by_id(key.topic_id)
        if topic is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic_id_text(key.topic_id)} (any more)"
            )
        group = self._group_configs.group_config(session.key.group_id)
        settings = self._config.gateway
        identity = self._identities.of(session.key)
        limit = min(settings.read_ahead_max_records, group.partition_max_record_locks)
        return MemberPartition(
            SharePartitionKey(session.key.group_id, topic.name, topic_id_text(key.topic_id), key.partition),
            identity.member_id,
            self._job,
            ReadAhead(
                limit,
                group.record_lock_duration_ms,
                DEMAND_WAIT_MS + LOST_AFTER_MS,
                settings.read_ahead_min_records,
                settings.read_ahead_linger_ms,
            ),
            arrived,
            DEMAND_WAIT_MS,
            group.record_lock_duration_ms,
            identity.incarnation_id,
        )
