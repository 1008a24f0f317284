"""Sends the acknowledgements in a ShareFetch or ShareAcknowledge to the job."""

import asyncio
from collections.abc import Awaitable, Mapping

from sharegroup.errors import ErrorCode
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.sessions.member_leases import Lease, MemberLeases
from sharegroup.gateway.sessions.member_partition import AckResult, completed_result
from sharegroup.gateway.sessions.member_sessions import MemberSessions
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.gateway.upstream.cluster import Leader, UpstreamCluster
from sharegroup.protocol.acknowledge_rules import split_unused
from sharegroup.protocol.share_session import ShareSession, TopicIdPartition
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from sharegroup.types import AcknowledgementBatch


class ShareAcknowledgements:
    """Sends acknowledgements to the job, separately for each partition.

    The outcome of an acknowledgement can be known when its row is durable, before the job has processed the row. This
    requires that the locks of the records and the member's lease are valid for at least `margin_ms` more
    (`MemberPartition.acknowledge`).
    """

    def __init__(
        self,
        job: JobChannel,
        cluster: UpstreamCluster,
        security: Authorization,
        leases: MemberLeases,
        sessions: MemberSessions,
        margin_ms: int,
    ) -> None:
        self._job, self._cluster, self._security = job, cluster, security
        self._leases, self._sessions, self._margin_ms = leases, sessions, margin_ms
        #: Acknowledgements whose outcome is not known yet. A leave waits for those of its member.
        self.open = OpenAcknowledgements(sessions.member_holds_records)
        sessions.on_end = self.open.notify_change

    def send(
        self,
        caller: Caller,
        session: ShareSession,
        acknowledgements: Mapping[TopicIdPartition, list[AcknowledgementBatch]],
        is_renew_ack: bool,
    ) -> dict[TopicIdPartition, asyncio.Future[AckResult]]:
        """Send the acknowledgements of each partition to the job. Return {partition: future with the outcome}.

        If a partition cannot be acknowledged, its outcome is an error. Records that the client marks as unused are
        returned to the job instead. Outcomes complete even if nothing awaits them.
        """
        self._sessions.get_served(session)
        now_ms, margin_ms = self._job.now_ms(), self._margin_ms
        outcomes: dict[TopicIdPartition, asyncio.Future[AckResult]] = {}
        for key, batches in acknowledgements.items():
            topic = self._cluster.topic_by_id(key.topic_id)
            if topic is None:
                outcomes[key] = completed_result(ErrorCode.UNKNOWN_TOPIC_ID)
            elif key.partition not in topic.leaders:
                outcomes[key] = completed_result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif not self._security.may_read(caller, topic.name):
                outcomes[key] = completed_result(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            else:
                part = self._sessions.get_member_partition(session, key)
                lease = self._lease(caller, session, topic.leaders[key.partition])
                unused, others = split_unused(batches)
                code, message = part.give_back(unused, now_ms)
                if others and not code:
                    outcome = part.acknowledge(others, is_renew_ack, lease, now_ms, margin_ms)
                else:
                    outcome = completed_result(code, message)
                outcomes[key] = asyncio.ensure_future(self._fail_if_deleted(key, outcome))
        self.open.add(session.key, outcomes.values())
        return outcomes

    def _lease(self, caller: Caller, session: ShareSession, leader: Leader) -> Lease:
        """Return the member's lease, or an invalid lease if the caller's node is not the leader of the partition.

        If it is not the leader, another gateway may serve this partition to the member. Only the job can then decide
        whether the acknowledgements are accepted.
        """
        return self._leases.get(*session.key) if leader.node_id == caller.node_id else Lease()

    async def _fail_if_deleted(self, key: TopicIdPartition, outcome: Awaitable[AckResult]) -> AckResult:
        """Wait for an outcome and return it. If it is a success but the topic was deleted, return UNKNOWN_TOPIC_ID."""
        found = await outcome
        if found[0] or await self._cluster.exists(key.topic_id):
            return found
        return int(ErrorCode.UNKNOWN_TOPIC_ID), None


async def wait_for_all(
    outcomes: Mapping[TopicIdPartition, Awaitable[AckResult]],
) -> dict[TopicIdPartition, AckResult]:
    found = await asyncio.gather(*outcomes.values())
    return dict(zip(outcomes, found, strict=True))
