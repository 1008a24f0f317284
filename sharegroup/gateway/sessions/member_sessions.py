"""Keeps the share sessions of all nodes, and stores through which session a member fetches each partition.

A node is a broker as clients see it. A member has a session at each node that leads some of its partitions. If the
leader of a partition changes, the partition moves to another session of the member, with the records that the member
holds. The end of the previous session does not release these records. The member may acknowledge them through either
session.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from sharegroup.gateway.sessions.member_partition import MemberPartition, ReleaseHandler
from sharegroup.gateway.sessions.member_session import MemberSession
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.log_fields import LogFields
from sharegroup.monitoring.metrics.delivery_counts import DeliveryCounts
from sharegroup.protocol.rows.broadcasts import (
    Broadcast,
    MemberLeftBroadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
)
from sharegroup.protocol.share_session import (
    AcknowledgeContext,
    ContextKind,
    FetchContext,
    SessionKey,
    ShareSession,
    ShareSessionCache,
    TopicIdPartition,
)
from sharegroup.protocol.topic_ids import parse_topic_id, topic_id_text
from sharegroup.types import AcquiredRange, SharePartitionKey

logger = logging.getLogger(__name__)

#: How long a demand (a request for records) waits at the job before it is sent again.
DEMAND_WAIT_MS = 300_000
#: If no response arrives within `DEMAND_WAIT_MS` plus this time, the demand was lost when the job restarted. The demand
#: is then sent again.
LOST_AFTER_MS = 10_000
#: If a member of this gateway has waited for records for this time (in ms), the other members give up buffered records.
#: Each keeps only those that it consumes in this time, which is about the length of two micro-batches.
KEEP_MS = 500
#: How often the locks of each share-partition are divided among its members.
SHARE_INTERVAL_MS = 500


class MemberSessions:
    """Creates, finds and ends the sessions that serve members."""

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
        #: {(member, partition): the session through which the member last fetched the partition}. The MemberSession of
        #: this session has the MemberPartition.
        self._owners: dict[tuple[SessionKey, TopicIdPartition], ShareSession] = {}
        #: Called with the key of each session that has ended.
        self.on_end: Callable[[SessionKey], None] = lambda _: None
        #: Called with the member's state and the time in ms when a fetch of the member waits for records. None if this
        #: gateway does not reserve offsets.
        self.on_wait: Callable[[MemberPartition, int], None] | None = None
        #: Called with the share-partition and the records that a micro-batch acquired for a member.
        self.on_acquired: Callable[[SharePartitionKey, Sequence[AcquiredRange]], None] = lambda key, acquired: None
        #: Called with records that a member releases; see `MemberPartition.on_release`.
        self.on_release: ReleaseHandler | None = None
        self.delivery_counts = DeliveryCounts()
        #: Whether this gateway has stopped delivering records.
        self.is_draining = False
        job.on_broadcast(self._on_broadcast)
        job.on_wanted(self._wanted_elsewhere)
        cluster.on_log_change(self._on_leader_change)

    def sessions_at(self, node_id: int) -> ShareSessionCache:
        """Return the share sessions at one node."""
        if node_id not in self._nodes:
            self._nodes[node_id] = ShareSessionCache(self._config.gateway.max_share_sessions)
        return self._nodes[node_id]

    def check_open(self, node_id: int, context: FetchContext | AcknowledgeContext) -> None:
        """Raise RequestError (SHARE_SESSION_NOT_FOUND) if the session has ended since the request arrived.

        A request that itself ends the session is not checked.
        """
        session = context.session
        if context.kind is not ContextKind.FINAL and self.sessions_at(node_id).get(*session.key) is not session:
            problem = f"the share session of member {session.key.member_id} ended during the request"
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND, problem)

    def get_served(self, session: ShareSession) -> MemberSession:
        """Return the MemberSession that serves a share session. It is created at the first call for this session."""
        if session not in self._served:
            self._served[session] = MemberSession(
                session,
                self._reader,
                lambda key, arrived: self._member_partition(session, key, arrived),
                lambda: self._group_configs.group_config(session.key.group_id),
            )
        return self._served[session]

    def move_partitions(self, session: ShareSession, partitions: Iterable[TopicIdPartition]) -> set[TopicIdPartition]:
        """Record that the member now fetches `partitions` through `session`.

        The caller must have called `get_served` for the session before. Returns the partitions that moved from another
        session of the member. The records that the member holds in these partitions move with them.
        """
        moved = set()
        for key in partitions:
            last = self._owners.get((session.key, key))
            if last is not session:
                if last is not None:
                    self._served[session].add_partition(key, self._served[last].remove_partition(key))
                    moved.add(key)
                self._served[session].get_partition(key)
                self._owners[session.key, key] = session
        return moved

    def is_owner(self, session: ShareSession, key: TopicIdPartition) -> bool:
        """Return whether the member last fetched the partition through this session."""
        return self._owners.get((session.key, key)) is session

    def get_member_partition(self, session: ShareSession, key: TopicIdPartition) -> MemberPartition:
        """Return the member's state in a share-partition, from the session that last fetched the partition.

        If no session has fetched it, the state is created in `session`.
        """
        owner = self._owners.get((session.key, key), session)
        return self.get_served(owner).get_partition(key)

    def end_session(self, session: ShareSession, is_final: bool = False) -> None:
        """End a session and release the records that the member holds through it, as Kafka's leaders do.

        Records stay locked if their partition was removed from the session, or if the member now fetches it at another
        node. A static member keeps all its records for its next session, unless its client has ended this one
        (`is_final`).
        """
        served = self._served.pop(session, None)
        if served is None:
            return
        ending = [key for key in served.partitions if self._owners.get((session.key, key)) is session]
        for key in ending:
            del self._owners[session.key, key]
        served.close(session.partitions.keys() & ending, is_final)
        self.on_end(session.key)

    def on_disconnect(self, connection_id: int) -> None:
        for sessions in self._nodes.values():
            for session in sessions.evict_connection(connection_id):
                self.end_session(session)

    def drain(self) -> None:
        """Stop delivering records and return buffered ones to the job, because the gateway is shutting down."""
        self.is_draining = True
        for served in self._served.values():
            served.drain()

    def connection_holds_records(self, connection_id: int) -> bool:
        """Return whether members with sessions on this connection hold records whose locks are valid."""
        return self._any_held(
            served for served in self._served.values() if served.session.connection_id == connection_id
        )

    def member_holds_records(self, process: SessionKey) -> bool:
        """Return whether a member holds records whose locks are valid."""
        sessions = (cache.get(*process) for cache in self._nodes.values())
        return self._any_held(self._served[found] for found in sessions if found is not None and found in self._served)

    def _any_held(self, members: Iterable[MemberSession]) -> bool:
        now_ms = self._job.now_ms()
        held = (held for served in members for part in served.member_partitions for _, _, held in part.holdings)
        return any(now_ms < each.lock_deadline_ms for each in held)

    def close(self) -> None:
        """End all sessions, as `end_session` does. Static members keep the records that they were sent."""
        for session in list(self._served):
            self.end_session(session)

    def upkeep(self) -> None:
        """Return to the job the buffered records that members will not use in time or that other members wait for.

        Every `SHARE_INTERVAL_MS`, also divide the locks of each share-partition among its members.
        """
        now_ms = self._job.now_ms()
        least_idle_ms = self._config.gateway.read_ahead_idle_ms
        buffered: list[MemberPartition] = []
        for served in self._served.values():
            if keys := served.buffered_partitions():
                lock_ms = self._group_configs.group_config(served.session.key.group_id).record_lock_duration_ms
                served.upkeep(keys, now_ms, least_idle_ms, int(PART_OF_LOCK * lock_ms))
                buffered += [part for part in map(served.get_partition, keys) if part.read_ahead.buffered]
        if now_ms >= self._share_again_ms:
            self._share_again_ms = now_ms + SHARE_INTERVAL_MS
            self._share_locks()
        if not buffered:
            return
        waiting = {part.key for part in self._all_partitions() if part.read_ahead.has_waited(now_ms, KEEP_MS)}
        for part in buffered:
            if part.key in waiting:
                part.unacquire(part.read_ahead.remove_spare(now_ms, KEEP_MS))

    def _all_partitions(self) -> Iterator[MemberPartition]:
        for served in self._served.values():
            yield from served.member_partitions

    def _share_locks(self) -> None:
        in_use = [part for part in self._all_partitions() if part.is_in_use]
        members = Counter(part.key for part in in_use)
        for part in in_use:
            config = self._group_configs.group_config(part.key.group_id)
            part.read_ahead.credit.share_locks(config.partition_max_record_locks, members[part.key])
            part.set_lock_duration(config.record_lock_duration_ms)

    # -- metrics -------------------------------------------------------------------------------------------------------

    @property
    def sessions_by_node(self) -> dict[int, ShareSessionCache]:
        """{node id: share sessions}, for each node that has had sessions."""
        return dict(self._nodes)

    @property
    def records_ahead(self) -> int:
        """The number of records that were acquired for members but not sent to them yet."""
        served = list(self._served.values())
        return sum(part.read_ahead.buffered for member in served for part in list(member.member_partitions))

    @property
    def cached_bytes(self) -> int:
        """The memory that cached record batches use, in bytes."""
        return self._cache.byte_count

    # -- broadcasts of the job -----------------------------------------------------------------------------------------

    def _on_broadcast(self, row: Broadcast) -> None:
        match row:
            case NewLeaderBroadcast():
                for served in self._served.values():
                    served.on_new_leader()
            case MemberLeftBroadcast():
                self._on_member_left(row.group_id, row.member_id, row.member_epoch)
            case TopicDeletedBroadcast():
                try:
                    self._on_topic_deleted(parse_topic_id(row.topic_id))
                except ValueError:
                    logger.warning(
                        "ignored a notice of the job that a topic was deleted: the topic id %(topic_id)r is invalid",
                        LogFields(topic_id=row.topic_id),
                    )

    def _on_member_left(self, group_id: str, member_id: str, member_epoch: int) -> None:
        if member_epoch < self._leases.get(group_id, member_id).member_epoch:
            return  # the member has joined again since, and this broadcast is read late or a second time
        self._leases.end(group_id, member_id)
        for served in self._served.values():
            for part in served.member_partitions:
                if (part.key.group_id, part.member_id) == (group_id, member_id):
                    part.on_member_left()

    def _on_topic_deleted(self, topic_id: UUID) -> None:
        self._cluster.mark_deleted(topic_id)
        for served in self._served.values():
            served.on_topic_deleted(topic_id)
        for owner in [owner for owner in self._owners if owner[1].topic_id == topic_id]:
            del self._owners[owner]

    def _on_leader_change(self, topic_id: UUID, partition: int) -> None:
        for served in self._served.values():
            served.on_leader_change(TopicIdPartition(topic_id, partition))

    def _wanted_elsewhere(self, key: SharePartitionKey) -> None:
        """Return to the job the buffered records of a share-partition that their members will not consume soon.

        Called when members of other gateways wait for records of this share-partition.
        """
        now_ms = self._job.now_ms()
        for served in self._served.values():
            for part in served.member_partitions:
                if part.key == key:
                    part.unacquire(part.read_ahead.remove_spare(now_ms, KEEP_MS))

    def _member_partition(
        self, session: ShareSession, key: TopicIdPartition, arrived: Callable[[], None]
    ) -> MemberPartition:
        topic = self._cluster.topic_by_id(key.topic_id)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {topic_id_text(key.topic_id)} does not exist")
        group = self._group_configs.group_config(session.key.group_id)
        settings = self._config.gateway
        identity = self._identities.get(session.key)
        limit = min(settings.read_ahead_max_records, group.partition_max_record_locks)
        part = MemberPartition(
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
            self.delivery_counts,
        )
        if self.on_wait is not None and not topic.has_made_id:
            part.on_wait, part.on_acquired = self.on_wait, self.on_acquired
        if self.on_release is not None:
            part.on_release = self.on_release
        return part

    @property
    def cache(self) -> BatchCache:
        """The cache of record batches from which members are served."""
        return self._cache
