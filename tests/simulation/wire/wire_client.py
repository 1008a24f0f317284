"""A share consumer at simulated gateways with the behaviour of KIP-932 clients: heartbeats, sessions, polls.

It is a process of its own, which can be suspended or die at any moment. It reports its requests and responses to the
`Observer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from sharegroup.errors import ErrorCode
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.types import AcknowledgeType
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_process import SimulatedGateway
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire.wire_connection import Connection, ConnectionLostError
from tests.simulation.wire.wire_habits import Habit
from tests.simulation.wire.wire_observer import Delivery, Observer, Place
from tests.simulation.wire.wire_session import STALE, FetchResult, NodeSession

HEARTBEAT_VERSION = 1
RETRY_MS, UNKNOWN_INTERVAL_MS = 1_000, 5_000
#: The time until the other end's keepalive detects that a host is gone.
KEEPALIVE_MS = 30_000
METADATA_AGE_S = 60.0
#: The pace of work depends on the remaining lock duration, which is zero for expired locks.
LEAST_LOCK_MS = 2_000
LEAVING, JOINING = -1, 0


@dataclass
class ClientSide:
    """The shared state of all clients. `numbers` counts acknowledgements; `metadata_lag_ms` is the age of their
    metadata; `loops` are those of all clients, which are checked for errors."""

    clock: Scheduler
    trace: Trace
    kafka: SimulatedKafka
    weather: Weather
    gateways: Sequence[SimulatedGateway]
    observer: Observer
    numbers: Iterator[int]
    metadata_lag_ms: int = 0
    loops: list[VirtualLoop] = field(default_factory=list)


class ClientProcess:
    """The process of one share consumer, from its start to its end. `on_end` is called after its end, in order or not;
    `random` decides on its actions; `client_id` is the name of a static member."""

    def __init__(
        self,
        member_id: str,
        group_id: str,
        topics: Sequence[str],
        habit: Habit,
        side: ClientSide,
        random: Random,
        on_end: Callable[[ClientProcess], None] = lambda client: None,
        client_id: str = "",
    ) -> None:
        self.member_id, self.group_id, self.topics, self.habit = member_id, group_id, tuple(topics), habit
        self.client_id, self.identity = client_id, client_id or member_id
        self.loop = VirtualLoop(side.clock)
        side.loops.append(self.loop)
        self.side, self._random, self._on_end = side, random, on_end
        self.has_ended = False
        self._set_up()

    def _set_up(self) -> None:
        """Create the state of the consumer."""
        raise NotImplementedError

    def start(self) -> None:
        """Join and consume."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close in order: acknowledgements, sessions, then the membership."""
        raise NotImplementedError

    def die(self, seen_after_ms: float | None = None) -> None:
        """End without notice: connections close immediately (the process died) or after a while (its host died)."""
        if self.has_ended:
            return
        if seen_after_ms is None:
            seen_after_ms = self._random.choice((0, KEEPALIVE_MS))
        self._say("dies")
        self._end()
        self._close_connections(seen_after_ms)
        self.loop.kill()

    def pause(self, ms: float) -> None:
        """Suspend the client for a time."""
        self._say(f"stands still for {ms / 1000:g} s")
        self.loop.pause()
        self.side.clock.after(ms, self.loop.resume)

    def _close_connections(self, seen_after_ms: float) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._on_end(self)

    def _verdict(self) -> AcknowledgeType:
        chance = self._random.random()
        if chance < self.habit.release:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if chance < self.habit.release + self.habit.reject else AcknowledgeType.ACCEPT

    def _say(self, what: str) -> None:
        self.side.trace.add(self.member_id, what)


class ShareClient(ClientProcess):
    """A consumer with its own implementation of the protocol."""

    def _set_up(self) -> None:
        self._gateway = self._random.randrange(len(self.side.gateways))
        self._epoch = JOINING
        self._assignment: list[Place] = []
        self._changed = asyncio.Event()
        self._sessions: dict[int, NodeSession] = {}
        self._fetches: dict[int, asyncio.Task[FetchResult]] = {}
        self._leaders: dict[str, tuple[int, ...]] = {}
        self._leaders_s = float("-inf")
        self._coordinator: Connection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join and poll."""
        self._say(f"starts: {self.habit.name}, group {self.group_id}, {', '.join(self.topics)}")
        self._tasks = [self.loop.start(self._beat()), self.loop.start(self._poll())]
        if self.habit.ends_ms:
            after_s = self._random.expovariate(1 / self.habit.ends_ms)
            dies = self._random.random() < self.habit.dies
            self.loop.call_later(after_s / 1000, self.die if dies else self.leave)
        if self.habit.moves_ms:
            self.loop.start(self._move_now_and_then())

    def _close_connections(self, seen_after_ms: float) -> None:
        for session in self._sessions.values():
            session.lost(seen_after_ms)
        if self._coordinator is not None:
            self._coordinator.close(seen_after_ms)

    def leave(self) -> None:
        """Close in order: sessions, then the membership."""
        if not self.has_ended:
            self.loop.start(self._leave())

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._say("leaves")
        for session in self._sessions.values():
            await session.acknowledge(is_last=True)
            session.lost()
        epoch, self._epoch = self._epoch, LEAVING
        if epoch != JOINING:
            self.side.observer.left(self.identity, self.group_id)
            await self._heartbeat()
        if self._coordinator is not None:
            self._coordinator.close()
        self._end()
        self.loop.call_soon(self.loop.kill)

    # -- gateways ------------------------------------------------------------------------------------------------------

    def move(self, gateway: int | None = None) -> None:
        """Move to another gateway: connections are closed, and sessions are opened again there."""
        others = [at for at in range(len(self.side.gateways)) if at != self._gateway]
        if gateway is None and not others:
            return
        self._gateway = self._random.choice(others) if gateway is None else gateway
        self._say(f"goes to {self.side.gateways[self._gateway].name}")
        for session in self._sessions.values():
            session.lost()
        self._sessions = {}
        if self._coordinator is not None:
            self._coordinator.close()

    async def _move_now_and_then(self) -> None:
        while not self.has_ended:
            await asyncio.sleep(self._random.expovariate(1 / self.habit.moves_ms) / 1000)
            self.move()

    def _connection(self, node_id: int) -> Connection:
        side = self.side
        gateway = side.gateways[self._gateway]
        return Connection(side.clock, side.weather, self.loop, gateway, node_id, self.client_id)

    # -- the group -----------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            interval_ms = await self._heartbeat()
            await asyncio.sleep(interval_ms / 1000)

    async def _heartbeat(self) -> int:
        """Send a heartbeat and return the delay until the next one."""
        if self._coordinator is None or self._coordinator.is_lost:
            self._coordinator = self._connection(self.side.kafka.brokers[0])
        sent_ms, epoch = self.side.clock.now_ms, self._epoch
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=list(self.topics) if epoch == JOINING else None,
        )
        if epoch != LEAVING:
            self.side.observer.heartbeat_sent(self.identity, self.group_id, self.topics)
        try:
            answer = (await self._coordinator.ask(request, HEARTBEAT_VERSION)).message
        except ConnectionLostError:
            if not self.side.gateways[self._gateway].is_up:
                self.move()
            return RETRY_MS
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._say(f"is fenced ({answer.error_code})")
            self.side.observer.left(self.identity, self.group_id)
            self._epoch = JOINING
            self._assign([])
            return 0
        if answer.error_code == ErrorCode.FENCED_INSTANCE_ID:  # a join of an earlier process arrived late
            self.loop.call_soon(self.die)
        if answer.error_code or epoch == LEAVING:
            return RETRY_MS
        self.side.observer.heartbeat_answered(self.identity, self.group_id, sent_ms)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assign(
                [
                    Place(self.group_id, topic_id_text(topic.topic_id), partition)
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                ]
            )
        return answer.heartbeat_interval_ms or UNKNOWN_INTERVAL_MS

    def _assign(self, places: list[Place]) -> None:
        if places != self._assignment:
            self._say(f"is assigned {', '.join(f'{p.topic_id}-{p.partition}' for p in places) or 'nothing'}")
            self._assignment = places
            self._changed.set()

    # -- polls ---------------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            found = await self._fetched()
            if found:
                await self._work(found)
            await self._sleep(self.habit.rests_ms)

    async def _fetched(self) -> list[Delivery]:
        """Return the records of one poll; none if there is no response."""
        wanted = self._by_node()
        for node_id in [node_id for node_id in self._sessions if node_id not in wanted]:
            self.loop.start(self._close_session(self._sessions.pop(node_id)))
        for node_id, places in wanted.items():
            if node_id not in self._fetches:
                self._fetches[node_id] = self.loop.create_task(self._session(node_id).fetch(places, self.habit.size))
        self._changed.clear()
        if not self._fetches:
            await self._wait_for_change()
            return []
        await asyncio.wait(self._fetches.values(), return_when=asyncio.FIRST_COMPLETED)
        deliveries: list[Delivery] = []
        problems: list[int | None] = []
        for node_id, task in list(self._fetches.items()):
            if task.done():
                del self._fetches[node_id]
                result = task.result()
                deliveries += result.deliveries
                if result.code != 0:
                    problems.append(result.code)
        if problems:
            await self._trouble(problems)
        return deliveries

    async def _trouble(self, problems: Sequence[int | None]) -> None:
        if any(code is None or code in STALE for code in problems):
            self._leaders_s = float("-inf")
        if None in problems and not self.side.gateways[self._gateway].is_up:
            self.move()
        await asyncio.sleep(RETRY_MS / 1000)

    async def _wait_for_change(self) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), UNKNOWN_INTERVAL_MS / 1000)
        except TimeoutError:
            self._leaders_s = float("-inf")

    async def _close_session(self, session: NodeSession) -> None:
        await session.acknowledge(is_last=True)
        session.lost()

    def _session(self, node_id: int) -> NodeSession:
        found = self._sessions.get(node_id)
        if found is None or found.connection.is_lost:
            side = self.side
            found = NodeSession(
                self.member_id,
                self.group_id,
                self._connection(node_id),
                side.observer,
                side.numbers,
                lambda: side.clock.now_ms,
                self.client_id,
            )
            self._sessions[node_id] = found
        return found

    def _by_node(self) -> dict[int, list[Place]]:
        """Return the partitions by leader, as far as leaders are known."""
        if self.loop.time() - self._leaders_s > METADATA_AGE_S:
            view = self.side.kafka.metadata(self.side.metadata_lag_ms)
            self._leaders = {topic.topic_id: topic.leaders for topic in view.values()}
            self._leaders_s = self.loop.time()
        nodes: dict[int, list[Place]] = {}
        for place in self._assignment:
            leaders = self._leaders.get(place.topic_id, ())
            leader = leaders[place.partition] if place.partition < len(leaders) else -1
            if leader >= 0:
                nodes.setdefault(leader, []).append(place)
        return nodes

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _work(self, deliveries: Sequence[Delivery]) -> None:
        now_ms = self.side.clock.now_ms
        lock_ms = max(LEAST_LOCK_MS, min(delivery.lock_end_ms for delivery in deliveries) - now_ms)
        habit, random = self.habit, self._random
        work_ms = random.uniform(*habit.work_ms)
        if random.random() < habit.stumbles:
            work_ms += lock_ms * random.uniform(*habit.work_locks)
        while habit.renew_after and work_ms > habit.renew_after * lock_ms:
            await asyncio.sleep(habit.renew_after * lock_ms / 1000)
            work_ms -= habit.renew_after * lock_ms
            await self._acknowledge(deliveries, lambda: AcknowledgeType.RENEW, is_renewal=True)
        await asyncio.sleep(work_ms / 1000)
        kept = [delivery for delivery in deliveries if random.random() >= habit.forgets]
        await self._acknowledge(kept, self._verdict, is_now=random.random() < habit.explicit)

    async def _acknowledge(
        self,
        deliveries: Sequence[Delivery],
        verdict: Callable[[], AcknowledgeType],
        is_renewal: bool = False,
        is_now: bool = True,
    ) -> None:
        """Queue acknowledgements for the current leaders; `is_now` sends them and waits for the responses."""
        nodes: dict[NodeSession, None] = {}
        leaders = {place: node_id for node_id, places in self._by_node().items() for place in places}
        for delivery in deliveries:
            node_id = leaders.get(delivery.place)
            if node_id is None or not delivery.records:
                continue
            session = self._session(node_id)
            session.pending.setdefault(delivery.place, {}).update(_types(delivery, verdict))
            nodes[session] = None
        if is_now:
            for session in nodes:
                await session.acknowledge(is_renewal)

    async def _sleep(self, range_ms: tuple[float, float]) -> None:
        if range_ms[1] > 0:
            await asyncio.sleep(self._random.uniform(*range_ms) / 1000)


def _types(delivery: Delivery, verdict: Callable[[], AcknowledgeType]) -> Iterator[tuple[int, int]]:
    """Yield (offset, type) of acquired records: one verdict for each range, a gap for each offset without a record."""
    there = set(delivery.records)
    for first, last, _ in delivery.acquired:
        kind = int(verdict())
        for offset in range(first, last + 1):
            yield offset, kind if offset in there else int(AcknowledgeType.GAP)
