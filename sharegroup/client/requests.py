"""Sends the requests of a share consumer: heartbeats, metadata requests, and *turns* with partition leaders.

A turn is a task that sends acknowledgements, a fetch, or both to one leader. Only one turn per leader is in progress at
a time, because the epoch of its share session counts the requests. Turns continue between polls. A turn is not
cancelled while the share session exists.

Fetching ahead: when a poll returns records, the next fetch is sent to each leader that has more records. When the
application polls again, the response has usually arrived. Such a fetch does not wait for records (MaxWaitMs 0). If it
waited, it would delay the acknowledgements of the next commit, because a session has only one request at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any
from uuid import UUID

from sharegroup.client.cluster import Cluster
from sharegroup.client.connector import Connector, UpstreamUnavailableError
from sharegroup.client.core.consumer_core import ConsumerCore
from sharegroup.client.core.share_node import FetchLimits, ShareNode
from sharegroup.client.errors import ShareGroupsUnsupportedError
from sharegroup.client.records import TopicIdPartition
from sharegroup.client.settings import ConsumerSettings
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.log_fields import LogFields
from sharegroup.protocol.messages import (
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)

#: The first version of ShareFetch with acquire modes, and of ShareAcknowledge with renewals (Kafka 4.2).
MODES_VERSION = 2


class Requests:
    """Sends the requests of one consumer. `on_change` is called after each change that must wake a waiting poll.

    A *turn* sends acknowledgements, a fetch, or both to one leader. Each leader has at most one turn at a time.
    """

    def __init__(
        self, settings: ConsumerSettings, core: ConsumerCore, connector: Connector, on_change: Callable[[], None]
    ) -> None:
        self._settings, self._core, self._on_change = settings, core, on_change
        self._cluster, self._clock = Cluster(settings, connector), connector.clock
        self._turns: dict[int, asyncio.Task[None]] = {}
        self._fetching: set[int] = set()
        #: The nodes whose queued acknowledgements are sent as soon as the current turn of the node has ended.
        self._committing: set[int] = set()
        self._failures: dict[int, int] = {}
        self._heartbeats: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._heartbeat_due = asyncio.Event()
        self._is_leaving = False
        self._outage = OutageLog(
            logger,
            "group %(group)s: a heartbeat failed",
            "group %(group)s: the coordinator responds to heartbeats again",
            fields=LogFields(group=settings.group_id),
        )
        self._instance_id: UUID | None = None
        self._unexpected: BaseException | None = None

    # -- the consumer --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the heartbeats, or start them again after an unexpected error has stopped them.

        If they are running, make them check immediately whether a heartbeat is due.
        """
        if self._heartbeats is None or self._heartbeats.done():
            self._heartbeats = self._start(self._send_heartbeats(), self._on_change)
        self._heartbeat_due.set()

    def note_subscription(self) -> None:
        """Mark the metadata as stale after a new subscription, so that the next `start_turns` fetches it again."""
        self._cluster.forget_leaders()

    def raise_problem(self) -> None:
        """Raise the next error that the application must handle, or an unexpected error of a request, if any."""
        unexpected, self._unexpected = self._unexpected, None
        if unexpected is not None:
            raise unexpected
        self._core.raise_problem()
        self._cluster.raise_problem()

    def start_turns(self) -> None:
        """For each leader without a turn in progress, start a turn that fetches records or sends acknowledgements.

        Leaders whose fetched records still wait for a poll are skipped. If the metadata is stale, a metadata request is
        started too.
        """
        leaders = self._cluster.sources(self._core.assigned)
        if self._cluster.is_stale and self._refreshing is None and self._core.membership.topics:
            self._refreshing = self._start(self._refresh(), self._refreshed)
        self._start_fetches(leaders, self._core.limits, is_ahead=False)
        held = self._core.full_node_ids
        self._start_acknowledging(node for node in self._core.nodes.values() if node.node_id not in held)

    def start_turns_ahead(self) -> None:
        """Start turns that fetch from leaders with more records, and turns that send queued acknowledgements.

        Call it when a poll is about to return the fetched records. Nothing is fetched unless
        `ConsumerCore.may_fetch_ahead` allows it. For a handler loop, no turns are started.
        """
        if self._core.may_fetch_ahead:
            leaders = self._cluster.sources(self._core.assigned)
            self._start_fetches(leaders, self._core.limits._replace(max_wait_ms=0), is_ahead=True)
        if not self._core.is_handling:
            self._start_acknowledging(self._core.nodes.values())

    def commit(self) -> None:
        """Send the queued acknowledgements in separate requests: immediately, or after the leader's current turn.

        For a handler loop, acknowledgements that wait for the current turn are sent with the next fetch instead.
        """
        if self._core.is_handling:
            self._start_acknowledging(self._core.nodes.values())
        else:
            self.commit_after_turns()

    def commit_after_turns(self) -> None:
        """Send the queued acknowledgements in separate requests: immediately, or after the leader's current turn."""
        self._committing |= {node.node_id for node in self._core.nodes.values() if node.has_pending}
        self._start_acknowledging(self._core.nodes.values())

    def _start_fetches(self, leaders: Mapping[TopicIdPartition, int], limits: FetchLimits, is_ahead: bool) -> None:
        """Plan fetches. Start a turn with each planned node, unless a turn with the node is in progress."""
        for node, wanted in self._core.plan_fetches(leaders, bool(self._fetching), is_ahead):
            if node.node_id not in self._turns:
                self._start_turn(node, wanted, limits)

    def _start_acknowledging(self, nodes: Iterable[ShareNode]) -> None:
        """Start a turn with each node that has queued acknowledgements, unless a turn with the node is in progress."""
        for node in nodes:
            if node.has_pending and node.node_id not in self._turns:
                self._committing.discard(node.node_id)
                self._start_turn(node, None)

    async def client_instance_id(self) -> UUID:
        """Return the client instance id (KIP-714), which is requested only once. Raises the broker's RequestError."""
        if self._instance_id is None:
            self._instance_id = await self._cluster.client_instance_id()
        return self._instance_id

    async def leave(self) -> None:
        """Send the queued acknowledgements, end the share sessions, then leave the group.

        Turns in progress are completed first. Fetched records that no poll has returned are released.
        """
        self._committing.clear()  # the final request has the acknowledgements
        await asyncio.gather(*(self._leave_node(node) for node in self._core.nodes.values()))
        await self._stop_heartbeats()
        request = self._core.membership.leave()
        if request is not None:
            await self._heartbeat(request)

    async def close(self) -> None:
        """Cancel all tasks and close all connections."""
        tasks = [task for task in (*self._turns.values(), self._heartbeats, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._cluster.close()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _start_turn(
        self, node: ShareNode, wanted: list[TopicIdPartition] | None, limits: FetchLimits | None = None
    ) -> None:
        if wanted is not None:
            self._fetching.add(node.node_id)
        work = self._turn(node, wanted, limits or self._core.limits)
        self._turns[node.node_id] = self._start(work, self._on_change)

    async def _turn(self, node: ShareNode, wanted: list[TopicIdPartition] | None, limits: FetchLimits) -> None:
        try:
            if wanted is None or node.has_renewals:
                await self._acknowledge(node)
                if node.has_renewals and not node.has_retries:
                    await self._acknowledge(node)
            if wanted is not None:
                await self._fetch(node, wanted, limits)
        except (UpstreamUnavailableError, RequestError) as error:
            node.on_lost(str(error))
            self._cluster.forget_leaders()
            if isinstance(error, ShareGroupsUnsupportedError):
                self._core.membership.fail(error)
            await self._back_off(node.node_id)
        except BaseException:
            node.on_lost("the request was cancelled")
            raise
        finally:
            self._end_turn(node)

    def _end_turn(self, node: ShareNode) -> None:
        """Record that the node's turn has ended. If a commit waits for the end, start a turn that sends it."""
        del self._turns[node.node_id]
        self._fetching.discard(node.node_id)
        if node.node_id in self._committing:
            self._committing.discard(node.node_id)
            self._start_acknowledging([node])

    async def _fetch(self, node: ShareNode, wanted: list[TopicIdPartition], limits: FetchLimits) -> None:
        request = node.fetch(wanted, limits)
        if self._settings.is_record_limit:
            await self._check_modes(node, request)
        sent_ms = self._clock.now_ms()
        response = await self._cluster.ask_leader(node.node_id, request, ShareFetchResponse, limits.max_wait_ms)
        now_ms = self._clock.now_ms()
        answer = node.on_fetch(response, now_ms)
        # If the server did not wait, locks may be as old as the request: the response may have waited for the loop.
        locked_ms = now_ms if limits.max_wait_ms else sent_ms

        def note_leader(topic_id: UUID, partition: int, leader: int) -> None:
            self._cluster.note_leader(topic_id, partition, leader, response.node_endpoints)

        self._core.on_fetch(node, answer, locked_ms, note_leader)
        self._core.metrics.fetch_answered(
            now_ms - sent_ms, response.throttle_time_ms, answer.size, answer.records, now_ms
        )
        has_errors = node.has_retries or any(part.code for part in answer.partitions)
        await self._finish_request(node, has_failed=has_errors or answer.problem is not None)

    async def _check_modes(self, node: ShareNode, request: Any) -> None:
        if await self._cluster.version_at(node.node_id, request) < MODES_VERSION:
            raise ShareGroupsUnsupportedError("share_acquire_mode=record_limit needs Kafka 4.2 or later")

    async def _acknowledge(self, node: ShareNode, is_final: bool = False) -> None:
        request = node.acknowledge(is_final)
        if request is not None:
            response = await self._cluster.ask_leader(node.node_id, request, ShareAcknowledgeResponse)
            problem = node.on_acknowledge(response, self._clock.now_ms())
            await self._finish_request(node, has_failed=problem is not None or node.has_retries)

    async def _leave_node(self, node: ShareNode) -> None:
        """Complete the turn of a node, and end its session. Other nodes that hang are not waited for."""
        turn = self._turns.get(node.node_id)
        if turn is not None:
            await asyncio.wait([turn])
        self._core.release_unpolled(self._clock.now_ms())
        await self._end_session(node)

    async def _end_session(self, node: ShareNode) -> None:
        try:
            await self._acknowledge(node, is_final=True)
        except (UpstreamUnavailableError, RequestError) as error:
            node.on_lost(str(error))

    async def _finish_request(self, node: ShareNode, has_failed: bool) -> None:
        if has_failed:
            await self._back_off(node.node_id)
        else:
            self._failures.pop(node.node_id, None)

    async def _back_off(self, node_id: int) -> None:
        """Sleep, so that the next request to the node is delayed.

        The delay doubles with each consecutive failure, up to `retry_backoff_max_ms`.
        """
        self._on_change()
        failures = self._failures[node_id] = self._failures.get(node_id, 0) + 1
        await asyncio.sleep(self._backoff_s(failures))

    def _backoff_s(self, failures: int) -> float:
        settings = self._settings
        exponent = min(failures - 1, 16)
        return min(settings.retry_backoff_ms << exponent, settings.retry_backoff_max_ms) / 1000

    # -- metadata ------------------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Fetch metadata, then pause, so that requests are not too frequent while a partition has no leader."""
        with contextlib.suppress(UpstreamUnavailableError):
            await self._cluster.refresh(self._core.membership.topics)
        self._on_change()
        await asyncio.sleep(self._settings.retry_backoff_ms / 1000)

    def _refreshed(self) -> None:
        self._refreshing = None
        self._on_change()

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        membership = self._core.membership
        while not self._is_leaving:
            request = membership.heartbeat(self._clock.now_ms())
            if request is not None:
                await self._heartbeat(request)
                continue
            self._heartbeat_due.clear()
            await self._clock.wait(self._heartbeat_due, membership.due_ms)

    async def _stop_heartbeats(self) -> None:
        """Stop the heartbeats. Wait for a heartbeat in progress, because its response may change the member epoch."""
        if self._heartbeats is not None:
            self._is_leaving = True
            self._heartbeat_due.set()
            try:
                await asyncio.wait([self._heartbeats])
            finally:
                self._is_leaving = False
                if self._heartbeats.done():  # else `close` cancels it
                    self._heartbeats = None

    async def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> None:
        membership = self._core.membership
        generation = membership.generation
        if membership.is_coordinator_stale:
            self._cluster.forget_coordinator()
            membership.is_coordinator_stale = False
        sent_ms = self._clock.now_ms()
        try:
            response = await self._cluster.ask_coordinator(membership.group_id, request, ShareGroupHeartbeatResponse)
        except UpstreamLoginRejectedError as error:
            membership.fail(RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)))
        except UpstreamUnavailableError as error:
            self._outage.report_failure(error)
            membership.on_lost(self._clock.now_ms())
        except RequestError as error:
            if error.code.retriable:
                membership.on_lost(self._clock.now_ms())
            else:
                membership.fail(error)
        else:
            self._outage.report_success()
            now_ms = self._clock.now_ms()
            self._core.metrics.heartbeat_answered(now_ms - sent_ms, now_ms)
            membership.on_response(response, now_ms)
        if membership.generation != generation:
            self._core.metrics.rebalances.record(1, self._clock.now_ms())
        if membership.generation != generation or not membership.due_ms:
            self._on_change()

    def _start(self, work: Coroutine[Any, Any, None], ended: Callable[[], None]) -> asyncio.Task[None]:
        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("a request of the share consumer failed", exc_info=error)
                self._unexpected = error
            ended()

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(done)
        return task
