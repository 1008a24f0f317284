"""Handles ShareFetch and ShareAcknowledge (version 1: KIP-932; version 2: KIP-1206 and KIP-1222)."""

import asyncio
from collections.abc import Mapping

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.handlers.share.share_acknowledgements import ShareAcknowledgements, wait_for_all
from sharegroup.gateway.handlers.share.share_requests import acknowledgements_of, forgotten_of, partitions_of
from sharegroup.gateway.handlers.share.share_responses import AcknowledgeResponseBuilder, FetchResponseBuilder
from sharegroup.gateway.handlers.share.share_topics import ShareTopics
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.records.tail_reader import Connections
from sharegroup.gateway.reservations.reserved_delivery import ReservedDelivery
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.member_session import FetchLimits, MemberSession
from sharegroup.gateway.sessions.member_sessions import MemberSessions
from sharegroup.gateway.sessions.open_acknowledgements import OpenAcknowledgements
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.request import Request
from sharegroup.gateway.wire.share_fetch_bytes import ShareFetchBytes
from sharegroup.gateway.wire.share_request_decoding import ShareAcknowledge, ShareFetch
from sharegroup.protocol.acknowledge_rules import check_renewing_fetch
from sharegroup.protocol.messages import ShareAcknowledgeResponse, ShareFetchResponse
from sharegroup.protocol.share_session import ContextKind, FetchContext, SessionKey, TopicIdPartition
from sharegroup.security.authorization import Authorization
from sharegroup.types import AcknowledgementBatch

RECORD_LIMIT = 1


class ShareApis:
    """The handlers of ShareFetch and ShareAcknowledge. `sessions` contains the share sessions of the members.

    `security` raises RequestError if the caller lacks a right. `tail_connections` are used only to read records at
    reserved offsets, that is, at offsets after the end of the log that are reserved for waiting members. If
    `tail_connections` is None, no offsets are reserved.
    """

    def __init__(
        self,
        config: Config,
        group_configs: GroupConfigs,
        job: JobChannel,
        cluster: UpstreamCluster,
        listeners: Listeners,
        security: Authorization,
        leases: MemberLeases,
        identities: MemberIdentities,
        tail_connections: Connections | None = None,
    ) -> None:
        self._job, self._cluster, self._security = job, cluster, security
        self._group_configs, self._listeners, self._identities = group_configs, listeners, identities
        self._topics = ShareTopics(cluster, security)
        self.sessions = MemberSessions(config, group_configs, job, cluster, leases, identities)
        self._reserved: ReservedDelivery | None = None
        if tail_connections is not None:
            self._reserved = ReservedDelivery(job, cluster, self.sessions, leases, group_configs, tail_connections)
        self._acknowledgements = ShareAcknowledgements(
            job, cluster, security, leases, self.sessions, config.gateway.ack_margin_ms
        )

    @property
    def open_acknowledgements(self) -> OpenAcknowledgements:
        """The acknowledgements whose outcome is not known yet."""
        return self._acknowledgements.open

    @property
    def has_reservations(self) -> bool:
        """Whether `upkeep` has work for reservations, for example because a member waits or has recently waited."""
        return self._reserved is not None and self._reserved.needs_upkeep

    @property
    def reserved_records(self) -> int:
        """The number of offsets that are reserved and not assigned yet."""
        return 0 if self._reserved is None else self._reserved.reserved_records

    def upkeep(self) -> None:
        """Return to the job unused reservations, and records that members do not fetch in time or that others wait for.

        Also divide the record locks among the members, reserve more offsets for waiting members, and renew this
        gateway's leases. Its reservations are valid until the lease ends. Must be called regularly.
        """
        self.sessions.upkeep()
        if self._reserved is not None:
            self._reserved.upkeep()

    def drain(self) -> None:
        """Stop delivering records because the gateway is shutting down.

        Return undelivered records and reserved offsets to the job.
        """
        if self._reserved is not None:
            self._reserved.close()
        self.sessions.drain()

    def close(self) -> None:
        """End all sessions. The job gets back the records that members hold."""
        if self._reserved is not None:
            self._reserved.close()
        self.sessions.close()

    # -- ShareFetch ----------------------------------------------------------------------------------------------------

    async def fetch(self, request: Request[ShareFetch]) -> ShareFetchResponse | ShareFetchBytes:
        """Handle a ShareFetch: send its acknowledgements to the job, and return their outcomes and new records."""
        body, caller = request.body, request.caller
        response = FetchResponseBuilder(self._cluster, self._listeners)
        acknowledgements = acknowledgements_of(body.topics)
        try:
            self._security.authorize_fetch(caller, body.group_id or "")
            check_renewing_fetch(body.is_renew_ack, body.max_wait_ms, body.min_bytes, body.max_bytes, body.max_records)
            process = SessionKey(body.group_id or "", body.member_id or "")
            await self._identities.wait_until_known(process, request.header.client_id, body.max_wait_ms / 1000)
            context = self.sessions.sessions_at(caller.node_id).fetch_context(
                body.group_id,
                body.member_id,
                body.share_session_epoch,
                caller.connection_id,
                partitions_of(body.topics),
                list(forgotten_of(body.forgotten_topics_data)),
                bool(acknowledgements),
            )
        except RequestError as error:
            if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                await asyncio.sleep(body.max_wait_ms / 1000)  # as in Kafka: keep clients from polling a full cache
            return response.build_error(error)
        if context.dropped is not None:
            self.sessions.end_session(context.dropped)
        try:
            await self._topics.refresh_unless_known(context.partitions, caller.node_id)
            await self._topics.refresh_unless_known(acknowledgements)
            self.sessions.check_open(caller.node_id, context)
            await self._serve_fetch(request, context, acknowledgements, response)
        except RequestError as error:
            return response.build_error(error)
        finally:
            if context.kind is ContextKind.FINAL:
                self.sessions.end_session(context.session, is_final=True)
        return response.build(self._lock_timeout_ms(context.session.key), self._job.now_ms())

    async def _serve_fetch(
        self,
        request: Request[ShareFetch],
        context: FetchContext,
        acknowledgements: Mapping[TopicIdPartition, list[AcknowledgementBatch]],
        response: FetchResponseBuilder,
    ) -> None:
        body, caller = request.body, request.caller
        served = self.sessions.get_served(context.session)
        served.rhythm.begin_fetch(self._job.now_ms())
        renews = body.is_renew_ack
        fetches = context.kind is not ContextKind.FINAL and not renews and body.max_records > 0
        if fetches:  # before the acknowledgements, so that records which they release can be passed on to this fetch
            for key in acknowledgements:
                if key in context.session.partitions:
                    served.begin_wait(key, self._job.now_ms())
        outcomes = self._acknowledgements.send(caller, context.session, acknowledgements, renews)
        try:
            faults = self._topics.partition_errors(caller, context.partitions)
            readable = [key for key in context.partitions if key not in faults]
            moved = self.sessions.move_partitions(context.session, readable)
            if context.kind is ContextKind.NEW:
                served.open([key for key in readable if key not in moved])
            served.forget(list(forgotten_of(body.forgotten_topics_data)))
            await asyncio.sleep(0)  # send acknowledgement rows before looking for more records
            if fetches:
                response.add_errors(faults)
                if readable or not faults:
                    await self._records(served, readable, request, response)
            if outcomes:
                response.add_outcomes(await wait_for_all(outcomes))
            now_ms = self._job.now_ms()
            response.remove_late_records(lambda key, found: served.withdraw_if_expiring(key, found, now_ms))
            if fetches:
                response.add_entries(context.session.pop_unanswered(response.failed_partitions))
        finally:
            served.end_wait()
            served.rhythm.end_fetch(response.record_count, self._job.now_ms())
            for outcome in outcomes.values():
                outcome.cancel()

    async def _records(
        self,
        served: MemberSession,
        partitions: list[TopicIdPartition],
        request: Request[ShareFetch],
        response: FetchResponseBuilder,
    ) -> None:
        """Add records to the response until it has at least MinBytes or MaxRecords, or MaxWaitMs have passed.

        With MinBytes 0, each partition's records are requested from the job once. The response then contains the
        records that the job acquires, possibly none.

        The wait also ends when the gateway shuts down, or when this node can no longer serve one of the partitions. If
        the partition has an error, the error is added to the response.
        """
        body = request.body
        loop = asyncio.get_running_loop()
        end = loop.time() + body.max_wait_ms / 1000
        is_round = body.min_bytes <= 0
        rounds: dict[TopicIdPartition, int] = {}
        is_checked = True  # the caller has checked `partitions`
        while not self.sessions.is_draining:
            served.clear_changes()
            may_wait = not is_round and loop.time() < end
            await self._add_buffered(served, partitions, request, response, may_wait)
            is_checked = is_checked and not served.has_changed
            faults = {} if is_checked else self._topics.partition_errors(request.caller, partitions)
            response.add_errors(faults)
            readable = [key for key in partitions if key not in faults and self.sessions.is_owner(served.session, key)]
            asked = served.unanswered(readable, rounds) if is_round else readable
            served.request_records(asked, body.max_records, self._job.now_ms(), is_round)
            left = end - loop.time()
            if len(readable) < len(partitions) or response.record_count >= body.max_records or left <= 0:
                return
            if is_round and not asked:
                return
            if response.record_count and response.byte_count >= body.min_bytes:
                return
            is_checked = False
            if not await served.wait(left) and not served.buffered_partitions():
                return

    async def _add_buffered(
        self,
        served: MemberSession,
        partitions: list[TopicIdPartition],
        request: Request[ShareFetch],
        response: FetchResponseBuilder,
        may_wait: bool,
    ) -> None:
        """Add buffered records to the response, within the limits of the request.

        Skip partitions whose records are already in the response. If a partition has no buffered records, record that
        the fetch waits for its records.

        `may_wait` is True if the fetch may wait until a partly acquired record batch has been acquired completely.
        """
        body = request.body
        is_record_limit = body.share_acquire_mode == RECORD_LIMIT
        buffered, now_ms = set(served.buffered_partitions()), self._job.now_ms()
        for key in partitions:
            room = body.max_records - response.record_count
            if room <= 0 or response.byte_count >= body.max_bytes:
                return
            if response.has_records(key):
                continue  # a response has a partition once; newer records are in the next response
            if key not in buffered:
                served.begin_wait(key, now_ms)
                continue
            topic = self._cluster.topic_by_id(key.topic_id)
            if topic is None or not self.sessions.is_owner(served.session, key):
                continue
            limits = FetchLimits(room, body.max_bytes - response.byte_count, max(1, body.batch_size), is_record_limit)
            found = await served.take_records(key, topic, limits, not response.record_count, self._job.now_ms, may_wait)
            if found is not None:
                response.add_records(key, found)

    # -- ShareAcknowledge ----------------------------------------------------------------------------------------------

    async def acknowledge(self, request: Request[ShareAcknowledge]) -> ShareAcknowledgeResponse:
        """Handle a ShareAcknowledge: send the acknowledgements to the job and return their outcomes."""
        body, caller = request.body, request.caller
        response = AcknowledgeResponseBuilder(self._cluster, self._listeners)
        try:
            self._security.authorize_fetch(caller, body.group_id or "")
            context = self.sessions.sessions_at(caller.node_id).acknowledge_context(
                body.group_id, body.member_id, body.share_session_epoch, caller.connection_id
            )
        except RequestError as error:
            return response.build_error(error)
        acknowledgements = acknowledgements_of(body.topics)
        try:
            await self._topics.refresh_unless_known(acknowledgements)
            self.sessions.check_open(caller.node_id, context)
            outcomes = self._acknowledgements.send(caller, context.session, acknowledgements, body.is_renew_ack)
            response.add_outcomes(await wait_for_all(outcomes))
        except RequestError as error:
            return response.build_error(error)
        finally:
            if context.kind is ContextKind.FINAL:
                self.sessions.end_session(context.session, is_final=True)
        return response.build(self._lock_timeout_ms(context.session.key))

    def _lock_timeout_ms(self, process: SessionKey) -> int:
        is_static = self._identities.get(process).is_static
        return self._group_configs.group_config(process.group_id).lock_duration_ms(is_static)
