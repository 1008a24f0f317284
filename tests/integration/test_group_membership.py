"""Ten members come and go at random, over the wire, side by side: what each is told, and what everybody can see."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.connection import UpstreamConnection
from sharegroup.protocol.messages import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

MEMBERS, STEPS = 10, 50
LEAVE, JOIN = -1, 0
#: Rounds of heartbeats in which an assignment must have come to everybody: it is made once a second at most.
SETTLE_ROUNDS = 60
Partition = tuple[uuid.UUID, int]


class Member:
    """One member of the group, on a connection of its own; each answer is checked as it comes."""

    def __init__(self, connection: UpstreamConnection, group_id: str, topics: dict[str, int], seed: int) -> None:
        self._connection, self._group_id, self._topics = connection, group_id, topics
        self._choice = random.Random(seed)
        self.member_id, self.topics = str(uuid.UUID(int=self._choice.getrandbits(128), version=4)), tuple(topics)
        self.epoch: int | None = None
        self.last_epoch = 0
        self.assigned: set[Partition] = set()
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        """One thing that a client, good or bad, may do."""
        if self.epoch is None:
            await self._choice.choices([self.join, self._beat_unknown], weights=[4, 1])[0]()
            return
        steps = [self.beat, self.leave, self._beat_with_wrong_epoch, self._resubscribe]
        await self._choice.choices(steps, weights=[5, 3, 1, 2])[0]()

    async def join(self) -> None:
        """With an id that may have been in the group before: its epoch is higher than any that it was told."""
        self.topics = self._some_topics()
        answer = await self._ask(JOIN, self.topics)
        assert answer.error_code == 0, answer.error_message
        assert answer.member_epoch > self.last_epoch
        self.assigned = set()
        self._take(answer)

    async def beat(self) -> None:
        """The epoch never goes back."""
        assert self.epoch is not None
        answer = await self._ask(self.epoch, None)
        assert answer.error_code == 0, answer.error_message
        assert answer.member_epoch >= self.epoch
        self._take(answer)

    async def leave(self) -> None:
        """It is gone at once: its epoch is nobody's."""
        assert self.epoch is not None
        answer = await self._ask(LEAVE, None)
        assert (answer.error_code, answer.member_epoch) == (0, LEAVE)
        self.epoch, self.assigned = None, set()

    async def _beat_unknown(self) -> None:
        answer = await self._ask(max(1, self.last_epoch), None)
        assert answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)

    async def _beat_with_wrong_epoch(self) -> None:
        """It is told to join again, and is a member all the same."""
        assert self.epoch is not None
        answer = await self._ask(self.epoch + 1_000, None)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        await self.beat()

    async def _resubscribe(self) -> None:
        assert self.epoch is not None
        self.topics = self._some_topics()
        answer = await self._ask(self.epoch, self.topics)
        assert answer.error_code == 0, answer.error_message
        assert answer.member_epoch >= self.epoch
        self._take(answer)

    def _take(self, answer: Any) -> None:
        assert answer.heartbeat_interval_ms > 0
        self.epoch = answer.member_epoch
        self.last_epoch = max(self.last_epoch, answer.member_epoch)
        if answer.assignment is not None:
            listed = [(topic.topic_id, p) for topic in answer.assignment.topic_partitions for p in topic.partitions]
            self.assigned = set(listed)
            assert len(self.assigned) == len(listed)
            assert all(0 <= partition < max(self._topics.values()) for _, partition in listed)

    def _some_topics(self) -> tuple[str, ...]:
        return tuple(self._choice.sample(sorted(self._topics), self._choice.randint(1, len(self._topics))))

    async def _ask(self, epoch: int, topics: tuple[str, ...] | None) -> Any:
        self.done["steps"] += 1
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        return await self._connection.ask(request, ShareGroupHeartbeatResponse, 1)


class Watched:
    """What describing the group shows, each time."""

    def __init__(self, connection: UpstreamConnection, group_id: str) -> None:
        self._connection, self._group_id = connection, group_id
        self._group_epoch = self._assignment_epoch = 0
        self.looks = 0

    async def look(self) -> Any:
        """Epochs never go back, and none is ahead of the group's; a state says whether there are members."""
        request = ShareGroupDescribeRequest(group_ids=[self._group_id], include_authorized_operations=False)
        (group,) = (await self._connection.ask(request, ShareGroupDescribeResponse, 1)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            assert not self._group_epoch
            return group
        assert group.error_code == 0
        assert group.group_state == ("Stable" if group.members else "Empty")
        assert self._group_epoch <= group.group_epoch
        assert self._assignment_epoch <= group.assignment_epoch <= group.group_epoch
        assert all(member.member_epoch <= group.group_epoch for member in group.members)
        assert len({member.member_id for member in group.members}) == len(group.members)
        for member in group.members:
            read = {topic.topic_name for topic in member.assignment.topic_partitions}
            assert read <= set(member.subscribed_topic_names) or member.member_epoch < group.group_epoch
        self._group_epoch, self._assignment_epoch = group.group_epoch, group.assignment_epoch
        self.looks += 1
        return group


@pytest.mark.thorough
def test_ten_members_at_random(gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic) -> None:
    group_id, topics = share_group_job.new_group(), {new_topic(3, 0): 3, new_topic(7, 0): 7}
    host, port = gateway.bootstrap_servers.split(",")[0].rsplit(":", 1)

    async def run() -> None:
        connections = [await UpstreamConnection.connect(host, int(port), {}) for _ in range(MEMBERS + 1)]
        try:
            await _run(connections, group_id, topics)
        finally:
            for connection in connections:
                connection.close()

    asyncio.run(run())


async def _run(connections: list[UpstreamConnection], group_id: str, topics: dict[str, int]) -> None:
    members = [Member(connection, group_id, topics, seed) for seed, connection in enumerate(connections[:MEMBERS])]
    watched = Watched(connections[MEMBERS], group_id)
    going = asyncio.gather(*(_steps(member) for member in members))
    while not going.done():
        await watched.look()
        await asyncio.wait([going], timeout=0.2)
    await going
    assert sum(member.done["steps"] for member in members) >= MEMBERS * STEPS
    assert watched.looks > 1

    there = [member for member in members if member.epoch is not None]
    if not there:
        await members[0].join()
        there = members[:1]
    await _settle(there, watched)
    found = await watched.look()
    assert {member.member_id: member.epoch for member in there} == {m.member_id: m.member_epoch for m in found.members}
    for topic, partitions in topics.items():
        _check_balance(topic, partitions, found.members)
    for member in found.members:
        (of_client,) = (ours for ours in there if ours.member_id == member.member_id)
        described = {(t.topic_id, p) for t in member.assignment.topic_partitions for p in t.partitions}
        assert of_client.assigned == described
    await asyncio.gather(*(member.leave() for member in there))
    assert (await watched.look()).group_state == "Empty"


async def _steps(member: Member) -> None:
    for _ in range(STEPS):
        await member.step()


async def _settle(members: list[Member], watched: Watched) -> None:
    """Until everybody has been told the newest assignment."""
    for _ in range(SETTLE_ROUNDS):
        await asyncio.gather(*(member.beat() for member in members))
        group = await watched.look()
        if {group.assignment_epoch, *(member.epoch for member in members)} == {group.group_epoch}:
            return
    raise AssertionError(f"not settled after {SETTLE_ROUNDS} rounds of heartbeats")


def _check_balance(topic: str, partitions: int, members: list[Any]) -> None:
    """`simple`: each partition of a topic that M members subscribe to has ceil(M / P) of them."""
    subscribers = [member for member in members if topic in member.subscribed_topic_names]
    read = Counter(
        partition
        for member in members
        for assigned in member.assignment.topic_partitions
        if assigned.topic_name == topic
        for partition in assigned.partitions
    )
    share = -(-len(subscribers) // partitions)
    assert set(read.values()) <= {share, share - 1}
    assert not subscribers or set(read) == set(range(partitions))
