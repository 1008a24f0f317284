"""A gateway as a simulated process: the real handlers on its own loop, instead of `server.py` with its sockets.

It can be killed, stopped in order, paused and restarted, and its clock can be wrong. Clients reach it through
`wire_connection`: requests and responses are kafka-python's objects.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sharegroup.config import Config
from sharegroup.gateway.groups.group_configs import REFRESH_INTERVAL_S as CONFIGS_INTERVAL_S
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.admin import admin_routes
from sharegroup.gateway.handlers.share.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.handlers.share.share_fetch import ShareApis
from sharegroup.gateway.records import tail_reader
from sharegroup.gateway.server import REFRESH_INTERVAL_S
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.request import Handler, Request, Route
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections.headers import (
    EncodedResponse,
    decode_response,
    encode_pieces,
    encode_request,
    read_header,
)
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.protocol import messages as share_messages
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from sharegroup.storage import GroupListing, ShareGroupDescription, SharePartitionOffset
from tests.simulation.brokers.broker_answers import BatchBytes, UpstreamFaults
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_channel import SimulatedJobChannel
from tests.simulation.gateway.gateway_upstream import SimulatedUpstream
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop

#: `server.py` checks ten times a second, which would take most of a simulated hour. A later return is also correct.
UPKEEP_INTERVAL_S = 0.5
PORT = 9192
#: Brokers respond to the reader of the ends of logs when something is appended, or after this time, in ms.
tail_reader.MAX_WAIT_MS = 2_000


class Tables(Protocol):
    """The reads of administrators, as in `StoredGroups`. Raises RequestError (COORDINATOR_NOT_AVAILABLE)."""

    async def listings(self) -> tuple[GroupListing, ...]: ...
    async def describe(self, group_ids: Any) -> dict[str, ShareGroupDescription]: ...
    async def offsets(self, group_ids: Any) -> dict[str, tuple[SharePartitionOffset, ...]]: ...
    async def configs(self) -> dict[str, dict[str, str]]: ...


@dataclass
class Surroundings:
    """The shared state of all gateways of a run."""

    clock: Scheduler
    trace: Trace
    kafka: SimulatedKafka
    config: Config
    tables: Tables
    weather: Weather = field(default_factory=Weather)
    batches: BatchBytes = field(default_factory=BatchBytes)


class SimulatedGateway:
    """A gateway with its port, clock and end. `skew_ms`: how much its machine's clock is ahead of the brokers'.

    After `kill` or `stop` it can `start` again as another process, with another `reply_to` and an empty memory.
    """

    def __init__(self, name: str, around: Surroundings, skew_ms: int = 0) -> None:
        self.name, self.skew_ms = name, skew_ms
        self.faults = UpstreamFaults()
        self._around = around
        self._starts = 0
        self._process: _Process | None = None
        self._loops: list[VirtualLoop] = []

    @property
    def is_up(self) -> bool:
        """Return whether a process accepts connections; a paused one does."""
        return self._process is not None

    @property
    def is_paused(self) -> bool:
        """Return whether it is suspended."""
        return self._process is not None and self._process.loop.is_paused

    def start(self) -> None:
        """Begin to serve; earlier requests may wait for that."""
        assert self._process is None
        self._starts += 1
        self._process = _Process(f"{self.name}.{self._starts}", self._around, self.faults, self.skew_ms)
        self._loops.append(self._process.loop)
        self._say("starts")

    def kill(self) -> None:
        """End it without notice; its connections break."""
        if self._process is not None:
            process, self._process = self._process, None
            self._say("is killed")
            process.kill()

    def stop(self) -> None:
        """End it in order: records that members hold are returned before its connections end."""
        if self._process is not None and not self._process.loop.is_paused:
            process, self._process = self._process, None
            self._say("stops")
            process.stop()

    def pause(self, ms: float) -> None:
        """Suspend it for a time."""
        if self._process is not None:
            loop = self._process.loop
            self._say(f"stands still for {ms / 1000:g} s")
            loop.pause()
            self._around.clock.after(ms, loop.resume)

    # -- connections -----------------------------------------------------------------------------------------------

    def connect(self, node_id: int, host: str, broken: Callable[[], None]) -> GatewayConnection | None:
        """Return a connection to the port of a broker; None if nobody listens. `broken` is called at its end."""
        process = self._process
        if process is None or node_id not in self._around.kafka.brokers:
            return None
        return process.connect(node_id, host, broken)

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Return the unhandled errors of its processes, each of which is a bug."""
        return [problem for loop in self._loops for problem in loop.problems]

    @property
    def share(self) -> ShareApis | None:
        """Return the handlers of the running process, for tests."""
        return self._process.share if self._process is not None else None

    def _say(self, what: str) -> None:
        self._around.trace.add(self.name, what)


class GatewayConnection:
    """The gateway's end of a connection, on which requests are handled in sequence."""

    def __init__(self, process: _Process, caller: Caller, broken: Callable[[], None]) -> None:
        self._process, self.caller, self._broken = process, caller, broken
        self._is_over = False
        self.task: asyncio.Task[None] | None = None

    def request(self, message: Any, version: int, answered: Callable[[Any, int], None]) -> None:
        """Handle a request; `answered` is called with the response and its time."""
        if not (self._is_over or self._process.is_gone):
            self._process.serve(self, message, version, answered)

    def lost(self) -> None:
        """Report that the client is gone."""
        if not (self._is_over or self._process.is_gone):
            self._is_over = True
            self._process.disconnected(self)

    def end(self) -> None:
        """End the connection because the process has ended; the client detects it."""
        if not self._is_over:
            self._is_over = True
            self._broken()


class _NoUpstreamGroups(UpstreamGroups):
    """The groups of a cluster that has none."""

    async def other_kind(self, node_id: int, group_id: str) -> str | None:
        return None


class _Process:
    """One life of a gateway. Its steady clock starts at the machine's time of its start."""

    def __init__(self, name: str, around: Surroundings, faults: UpstreamFaults, skew_ms: int) -> None:
        self._name, self._around, self._faults, self._skew_ms = name, around, faults, skew_ms
        self.loop = VirtualLoop(around.clock)
        self.share: ShareApis | None = None
        self.is_gone = False
        self._connections: dict[int, GatewayConnection] = {}
        self._numbers = itertools.count(1)
        self._handlers: dict[type, Handler] = {}
        self._job: SimulatedJobChannel | None = None
        self._ready = asyncio.Event()
        self._upkeep: asyncio.TimerHandle | None = None
        self.loop.start(self._serve())

    # -- life ----------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Create and start the gateway, as `Parts` and `Gateway.start` do."""
        around, config = self._around, self._around.config
        cluster = SimulatedUpstream(around.clock, around.kafka, around.weather, self._faults, around.batches)
        topics = RowTopics(
            config.job.group_requests_topic, config.job.partition_requests_topic, config.job.responses_topic
        )
        timeout_s = config.gateway.job_timeout_ms / 1000
        job = self._job = SimulatedJobChannel(
            self._name,
            around.clock,
            around.kafka,
            around.weather,
            self.loop,
            cluster,
            topics,
            self._local_ms,
            timeout_s,
            self._keep_up,
        )
        security = Authorization(None)
        configs = GroupConfigs(config, around.tables)  # type: ignore[arg-type]
        listeners = Listeners(self._name)
        for node_id in around.kafka.brokers:
            listeners.add(node_id, PORT + node_id)
        leases, identities = MemberLeases(), MemberIdentities(configs)
        tails = cluster.tail_connections if config.gateway.reserves else None
        self.share = ShareApis(config, configs, job, cluster, listeners, security, leases, identities, tails)
        upstream_groups = _NoUpstreamGroups(cluster, around.tables)  # type: ignore[arg-type]
        heartbeat = ShareGroupHeartbeat(
            job, cluster, security, leases, upstream_groups, identities, self.share.open_acknowledgements, OpenLeaves()
        )
        routes: list[Route] = [
            (share_messages.ShareGroupHeartbeatRequest, heartbeat),
            (share_messages.ShareFetchRequest, self.share.fetch),
            (share_messages.ShareAcknowledgeRequest, self.share.acknowledge),
            *admin_routes(
                config,
                job,
                cluster,
                around.tables,  # type: ignore[arg-type]
                upstream_groups,
                configs,
                security,
            ),
        ]
        self._handlers = dict(routes)
        job.start()
        await cluster.refresh()
        await configs.refresh()
        self._ready.set()
        self._each(CONFIGS_INTERVAL_S, configs.upkeep)
        self._each(REFRESH_INTERVAL_S, cluster.try_refresh)

    def kill(self) -> None:
        """End the process immediately and without notice."""
        self.is_gone = True
        if self._job is not None:
            self._job.kill()
        self.loop.kill()
        self._end_connections()

    def stop(self) -> None:
        """End the process in order; records that members hold are returned."""
        self.is_gone = True
        self.loop.start(self._stop())

    async def _stop(self) -> None:
        if self.share is not None and self._job is not None:
            self.share.close()
            self._end_connections()
            await self._job.close()
        self.loop.call_soon(self.loop.kill)

    def _end_connections(self) -> None:
        for connection in list(self._connections.values()):
            connection.end()
        self._connections.clear()

    def _local_ms(self) -> int:
        return self._around.clock.now_ms + self._skew_ms

    # -- connections ---------------------------------------------------------------------------------------------------

    def connect(self, node_id: int, host: str, broken: Callable[[], None]) -> GatewayConnection:
        """Connect a client that uses a broker's port; `broken` is called when the gateway ends the connection."""
        caller = Caller(next(self._numbers), node_id, host)
        found = self._connections[caller.connection_id] = GatewayConnection(self, caller, broken)
        return found

    def serve(
        self, connection: GatewayConnection, message: Any, version: int, answered: Callable[[Any, int], None]
    ) -> None:
        """Handle a request; `answered` is called with the response and the time (ms)."""
        connection.task = self.loop.create_task(self._handle(connection, message, version, answered))

    async def _handle(
        self, connection: GatewayConnection, message: Any, version: int, answered: Callable[[Any, int], None]
    ) -> None:
        await self._ready.wait()
        frame = memoryview(encode_request(message, version, 0, connection.caller.host))[4:]  # without its length
        header = read_header(frame)
        try:
            body = decode_request(type(message), header, frame)
            response = await self._handlers[type(message)](Request(header, body, connection.caller))
        except Exception as error:  # noqa: BLE001 - as the connection does: it is closed
            self.loop.call_exception_handler({"message": f"{type(message).__name__} failed", "exception": error})
            self.disconnected(connection)
            connection.end()
            return
        # Clients receive decoded responses.
        if isinstance(response, EncodedResponse):
            sent = memoryview(b"".join(encode_pieces(response, version, header.correlation_id)))[4:]
            response = decode_response(share_messages.ShareFetchResponse, version, sent)
        answered(response, self._around.clock.now_ms)

    def disconnected(self, connection: GatewayConnection) -> None:
        """Discard the connection of a client that is gone, and its waits."""
        self._connections.pop(connection.caller.connection_id, None)
        self.loop.call_soon(self._disconnected, connection)

    def _disconnected(self, connection: GatewayConnection) -> None:
        if connection.task is not None:
            connection.task.cancel()
        if self.share is not None:
            self.share.sessions.on_disconnect(connection.caller.connection_id)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Check records that are read ahead or reserved, as long as there are some."""
        if self._upkeep is None and self._has_buffers():
            self._upkeep = self.loop.call_later(UPKEEP_INTERVAL_S, self._look)

    def _look(self) -> None:
        self._upkeep = None
        if self.share is not None:
            self.share.upkeep()
        self._keep_up()

    def _has_buffers(self) -> bool:
        if self.share is None:
            return False
        if self.share.has_reservations:
            return True
        served = self.share.sessions._served.values()
        return any(part.read_ahead.buffered for session in served for part in session.member_partitions)

    def _each(self, interval_s: float, work: Callable[[], Any]) -> None:
        """Call `work` at an interval."""

        async def once() -> None:
            try:
                await work()
            finally:
                self._each(interval_s, work)

        self.loop.call_later(interval_s, lambda: self.loop.start(once()))
