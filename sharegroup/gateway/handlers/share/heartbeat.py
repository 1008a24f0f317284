"""Handles ShareGroupHeartbeat: sends a row with topic metadata to the job, and returns the job's response."""

import asyncio
import functools
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.job_client.group_requests import topics_metadata
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError, NotDurableError
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import Lease, MemberLeases
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.gateway.upstream.cluster import Topic, UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.outage_log import OutageLogs
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.share_session import SessionKey
from sharegroup.protocol.topic_ids import parse_topic_id
from sharegroup.security.authorization import Authorization

logger = logging.getLogger(__name__)

#: Maximum number of members whose subscription is stored, for heartbeats that do not repeat it. If a subscription was
#: discarded, the coordinator's next response restores it.
MAX_REMEMBERED = 100_000
#: The member epoch in the heartbeat of a dynamic member that leaves.
LEAVE_GROUP_EPOCH = -1
#: How long a heartbeat waits until its row is durable, in seconds. A client sends its leave only after the response to
#: its previous heartbeat. Kafka's own clients wait 5 s for this when they close, so the value must be below 5 s.
DURABLE_S = 4.0
#: How long group descriptions wait for a leave that the job has not processed, in seconds.
LEAVE_PATIENCE_S = 5.0


class ShareGroupHeartbeat:
    """The handler of ShareGroupHeartbeat. `security` raises RequestError if the caller lacks a right."""

    def __init__(
        self,
        job: JobChannel,
        cluster: UpstreamCluster,
        security: Authorization,
        leases: MemberLeases,
        upstream_groups: UpstreamGroups,
        identities: MemberIdentities,
        acknowledgements: OpenAcknowledgements,
        leaves: OpenLeaves,
    ) -> None:
        self._job, self._cluster, self._security, self._leases = job, cluster, security, leases
        self._upstream_groups, self._identities = upstream_groups, identities
        self._acknowledgements, self._open_leaves = acknowledgements, leaves
        self._subscriptions: OrderedDict[SessionKey, tuple[str, ...]] = OrderedDict()
        self._outages = OutageLogs(logger, "heartbeats of members fail", "heartbeats of members succeed again")
        #: {member: future of its row that was not durable in time}. Such a row may still be appended.
        self._not_durable: dict[SessionKey, asyncio.Future[int]] = {}

    async def __call__(self, request: Request[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse:
        """Send the request to the job and return the job's response.

        A leave first waits for the outcomes of the member's acknowledgements. It is usually answered before the job has
        processed it (`_leave`).

        While the job is unavailable or loading, the member gets a retriable error: COORDINATOR_NOT_AVAILABLE or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        body = request.body
        process = SessionKey(body.group_id, body.member_id)
        try:
            names = body.subscribed_topic_names
            self._security.authorize_heartbeat(request.caller, body.group_id, names or ())
            if body.member_epoch == 0:
                await self._upstream_groups.check_joined(request.caller.node_id, body.group_id)
            if body.member_epoch < 0:
                await self._acknowledgements.wait(process)
            row = await self._row(request)
            is_certain = row.member_epoch == LEAVE_GROUP_EPOCH and self._leases.get(*process).is_valid_at(
                self._job.now_ms()
            )
            lease = self._lease(process, row)
            response = await (self._leave(row) if is_certain else self._ask(process, row))
        except RequestError as error:
            return _error(body.member_id, int(error.code), error.message)
        except (JobUnavailableError, UpstreamUnavailableError) as error:
            if not isinstance(error, NotDurableError):  # the appender logs this outage
                self._outages.report_failure(self._job.cell_of(body.group_id), error)
            unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
            code = error.code if isinstance(error, JobUnavailableError) else unavailable
            return _error(body.member_id, int(code), str(error))
        assert isinstance(response, HeartbeatResponse)
        self._outages.report_success(self._job.cell_of(body.group_id))
        self._apply_response(process, row, response, lease)
        return _response(body.member_id, response)

    async def _row(self, request: Request[ShareGroupHeartbeatRequest]) -> HeartbeatRequest:
        body = request.body
        process = SessionKey(body.group_id, body.member_id).shortened
        names = None if body.subscribed_topic_names is None else tuple(body.subscribed_topic_names)
        known = names if names is not None else self._subscriptions.get(process, ())
        is_new = body.member_epoch == 0 or set(known) != set(self._subscriptions.get(process, ()))
        topics = await self._topics(known, is_new) if body.member_epoch >= 0 else {}
        name = self._identities.instance_id_for(body.group_id, request.header.client_id)
        return HeartbeatRequest(
            self._job.new_id(),
            body.group_id,
            self._job.reply_to,
            member_id=body.member_id if name is None else "",
            member_epoch=body.member_epoch,
            rack_id=body.rack_id,
            client_id=request.header.client_id,
            client_host=f"/{request.caller.host}",
            subscribed_topic_names=names,
            topics=topics_metadata(topics),
            group_instance_id=name,
            incarnation_id=None if name is None else body.member_id,
        )

    async def _topics(self, names: Collection[str], is_new: bool) -> Mapping[str, Topic]:
        """Return {name: topic}, without topics that do not exist.

        `is_new` is True for a new subscription. Known topics are then checked again, because a topic that was just
        deleted would otherwise be assigned to the member for a while.
        """
        return await (self._cluster.newest_topics(names) if is_new else self._cluster.topics(names))

    async def _ask(self, process: SessionKey, row: HeartbeatRequest) -> Response:
        """Send a row and return the job's response.

        Raises JobUnavailableError if the job does not respond, and NotDurableError if the row is not durable within
        `DURABLE_S`. The client then repeats the heartbeat.

        No further row of the member is sent while an earlier row may still be appended. Otherwise an outage would fill
        the queue of rows. A leave is sent in any case, because no heartbeat follows it.
        """
        earlier = self._not_durable.get(process) if row.member_epoch >= 0 else None
        if earlier is not None:
            await asyncio.wait({earlier}, timeout=DURABLE_S)
            if not earlier.done():
                raise NotDurableError("the row of the previous heartbeat is not durable yet", earlier)
        try:
            return await self._job.ask(row, DURABLE_S)
        except NotDurableError as error:
            self._not_durable[process] = error.sent
            error.sent.add_done_callback(functools.partial(self._on_sent, process))
            raise

    def _on_sent(self, process: SessionKey, sent: asyncio.Future[int]) -> None:
        """Remove the row of a member from `_not_durable`, because its outcome is known now.

        Also retrieve the exception of `sent`, if it has one. Otherwise asyncio would log it, because nothing else
        awaits this future.
        """
        self._not_durable.pop(process, None)
        if not sent.cancelled():
            sent.exception()

    async def _leave(self, row: HeartbeatRequest) -> HeartbeatResponse:
        """Append the row of a leave. Return the response when the row is durable, without waiting for the job.

        The caller must have checked that the member is in its group, so that the job will remove the member. The job
        processes later requests for the group after this row. Descriptions of the group wait until the job has
        processed it.

        Raises JobUnavailableError if the row cannot be appended or is not durable within `DURABLE_S`. A row that is not
        durable in time may still be appended. If it is never appended, the member's session times out.
        """
        processed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._job.subscribe(row.id, lambda _: None if processed.done() else processed.set_result(None))
        try:
            await asyncio.wait_for(self._job.append(row), DURABLE_S)
        except BaseException as error:
            self._job.unsubscribe(row.id)
            if isinstance(error, TimeoutError):
                raise JobUnavailableError(f"the row of the leave was not durable within {DURABLE_S:g} s") from None
            raise
        self._open_leaves.add(row.group_id, asyncio.ensure_future(self._wait_until_processed(row.id, processed)))
        return HeartbeatResponse(
            row.id, row.reply_to, row.group_id, member_id=row.member_id, member_epoch=LEAVE_GROUP_EPOCH
        )

    async def _wait_until_processed(self, request_id: str, processed: asyncio.Future[None]) -> None:
        """Wait until the job has responded to a leave, for up to `LEAVE_PATIENCE_S`. Ignore a later response."""
        try:
            await asyncio.wait_for(processed, LEAVE_PATIENCE_S)
        except TimeoutError:
            self._job.unsubscribe(request_id)

    def _lease(self, process: SessionKey, row: HeartbeatRequest) -> Lease:
        """Return the member's lease, which the job's response will extend. Must be called before `row` is sent.

        A lease is the time until which a member is certainly in its group. If `row` is a leave, this method ends the
        lease, because the job may process the row at any time. A static member has no lease, because its next process
        may join through any gateway at any time. For a leave or a static member, the result is a new, unused lease.
        """
        if row.member_epoch < 0 or row.group_instance_id is not None:
            self._leases.end(*process)
            return Lease()
        return self._leases.get_or_create(*process)

    def _apply_response(
        self, process: SessionKey, row: HeartbeatRequest, response: HeartbeatResponse, lease: Lease
    ) -> None:
        if response.error_code or response.member_epoch < 0:
            self._subscriptions.pop(process.shortened, None)
            self._identities.remove(process)
            if response.error_code:
                self._leases.end(*process)
            return
        lease.extend(response.session_deadline_ms, response.member_epoch)
        if row.group_instance_id is not None:
            self._identities.add(process, response.member_id)
        if response.subscribed_topic_names is not None:
            self._subscriptions[process.shortened] = tuple(response.subscribed_topic_names)
            self._subscriptions.move_to_end(process.shortened)
            if len(self._subscriptions) > MAX_REMEMBERED:
                self._subscriptions.popitem(last=False)


def _response(member_id: str, response: HeartbeatResponse) -> ShareGroupHeartbeatResponse:
    """Convert the job's response to Kafka's. The result contains `member_id`, the id in the member's request.

    The job's response contains another id if the member is static.
    """
    message = ShareGroupHeartbeatResponse
    assignment = None
    if response.assignment is not None:
        assignment = message.Assignment(
            topic_partitions=[
                message.Assignment.TopicPartitions(topic_id=parse_topic_id(text), partitions=list(partitions))
                for text, partitions in response.assignment.values()
            ]
        )
    return message(
        throttle_time_ms=0,
        error_code=response.error_code,
        error_message=response.error_message,
        member_id=member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=assignment,
    )


def _error(member_id: str, code: int, message: str | None) -> ShareGroupHeartbeatResponse:
    return _response(member_id, HeartbeatResponse("", "", "", code, message, member_id=member_id, member_epoch=0))
