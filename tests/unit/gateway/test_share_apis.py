"""ShareFetch and ShareAcknowledge: order of acknowledgements, ends of waiting fetches, deleted topics."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from sharegroup.config import Config, IsolationLevel
from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers.share.share_fetch import RECORD_LIMIT, ShareApis
from sharegroup.gateway.records import log_reader
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.member_partition import ROUND_MS, MemberPartition
from sharegroup.gateway.sessions.member_sessions import DEMAND_WAIT_MS
from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.request import Request
from sharegroup.gateway.wire.request_decoding import decode_request
from sharegroup.kafka_clients.connections.headers import decode_response, encode_pieces, encode_request, read_header
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareFetchResponse
from sharegroup.protocol.rows.broadcasts import TopicDeletedBroadcast
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, RELEASE_MEMBER, UNACQUIRE
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.security.caller import Caller
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange
from tests.unit.gateway import log_batches
from tests.unit.gateway.known_cluster import KnownCluster, partition_data
from tests.unit.gateway.recording_job import RecordingJob

ORDERS, SECRETS, BILLS = UUID(int=1), UUID(int=2), UUID(int=3)
NODE, LOCK_MS = 1, 30_000
BATCH_OPTIMIZED = 0
#: Longer than any test takes.
LONG_MS = 120_000
OTHER_NODE = 2


class Gateway:
    """The handlers with one member of the group g, which may read all topics but `secrets`."""

    def __init__(self) -> None:
        config = Config()
        self.cluster = KnownCluster(orders=(ORDERS, NODE), secrets=(SECRETS, NODE), bills=(BILLS, NODE))
        self.group_config = config.group_config("g")
        groups: Any = SimpleNamespace(group_config=lambda _: self.group_config)
        security = SimpleNamespace(authorize_fetch=lambda *_: None, may_read=lambda _, name: name != "secrets")
        self.job = RecordingJob()
        listeners = Listeners("localhost")
        listeners.add(NODE, 9192)
        listeners.add(OTHER_NODE, 9193)
        leases = MemberLeases()
        leases.get_or_create("g", "m").extend(10 * LOCK_MS)
        self.identities = MemberIdentities(groups)
        self.apis = ShareApis(
            config, groups, cast(Any, self.job), self.cluster, listeners, security, leases, self.identities
        )

    async def fetch(
        self,
        epoch: int,
        *topic_ids: UUID,
        reject: tuple[tuple[int, int], ...] = (),
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_records: int = 10,
        acquire_mode: int = 0,
    ) -> Any:
        """Send a ShareFetch of partition 0 of these topics that rejects the offsets in `reject`."""
        named = ShareFetchRequest.FetchTopic
        partition = named.FetchPartition
        body = ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1_000_000,
            max_records=max_records,
            batch_size=10,
            share_acquire_mode=acquire_mode,
            topics=[
                named(
                    topic_id=topic_id,
                    partitions=[partition(partition_index=0, acknowledgement_batches=batches(partition, reject))],
                )
                for topic_id in topic_ids
            ],
            forgotten_topics_data=[],
        )
        version = 2 if acquire_mode else 1
        answer = await self.apis.fetch(request(body, version))
        return decode_response(ShareFetchResponse, version, memoryview(b"".join(encode_pieces(answer, version, 5)))[4:])

    async def acknowledge(self, epoch: int, topic_id: UUID, *reject: tuple[int, int]) -> int:
        """Send a ShareAcknowledge that rejects offsets of partition 0; return the partition's error code."""
        named = ShareAcknowledgeRequest.AcknowledgeTopic
        partition = named.AcknowledgePartition
        entry = partition(partition_index=0, acknowledgement_batches=batches(partition, reject))
        body = ShareAcknowledgeRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=epoch,
            topics=[named(topic_id=topic_id, partitions=[entry])],
        )
        response = await self.apis.acknowledge(request(body))
        assert response.error_code == 0
        return int(response.responses[0].partitions[0].error_code)

    def alter_group(self, **values: Any) -> None:
        """Alter the group's config."""
        self.group_config = dataclasses.replace(self.group_config, **values)

    def part(self, name: str = "orders") -> MemberPartition:
        """Return the member's part of partition 0 of a topic."""
        session = self.apis.sessions.sessions_at(NODE).get("g", "m")
        assert session is not None
        return next(part for part in self.apis.sessions.get_served(session).member_partitions if part.key.topic == name)

    def hand_out(self, first: int, last: int) -> None:
        """Respond to the last demand with records that all go to the member."""
        self.job.acquire(first, last, LOCK_MS)
        self.part().deliver(Slice([AcquiredRange(first, last, 1)], [], [], [], last - first + 1, 0), 0)

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            await asyncio.sleep(0)

    def sent(self, kind: str) -> list[Any]:
        """Return the sent rows of a type."""
        return [row for row in self.job.rows if row.type == kind]

    def rows(self) -> list[tuple[str, str]]:
        """Return (type, topic) of the rows that were sent since the last call."""
        rows, self.job.rows = self.job.rows, []
        return [(row.type, row.topic) for row in rows]


def batches(partition: Any, offsets: tuple[tuple[int, int], ...]) -> list[Any]:
    return [
        partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[AcknowledgeType.REJECT])
        for first, last in offsets
    ]


def request(body: Any, version: int = 1) -> Request:
    frame = memoryview(encode_request(body, version, 5, "c"))[4:]
    header = read_header(frame)
    return Request(header, decode_request(type(body), header, frame), Caller(7, NODE, "localhost"))


def errors(response: Any) -> dict[UUID, tuple[int, int]]:
    """Return {topic id: (error code, acknowledge error code)}."""
    assert response.error_code == 0
    return {
        entry.topic_id: (partition.error_code, partition.acknowledge_error_code)
        for entry in response.responses
        for partition in entry.partitions
    }


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)
    monkeypatch.setattr(log_reader, "FIRST_PAUSE_S", 0.01)


def run(test: Callable[[Gateway], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Gateway())

    asyncio.run(main())


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_acknowledging_requires_the_right_to_read_the_topic() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.rows()
        assert await gateway.acknowledge(1, SECRETS, (0, 9)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = await gateway.fetch(2, SECRETS, reject=((0, 9),))
        assert errors(refused)[SECRETS] == (ErrorCode.TOPIC_AUTHORIZATION_FAILED,) * 2
        assert [row for row in gateway.rows() if row[1] == "secrets"] == []

    run(test)


@pytest.mark.parametrize("by_fetch", [True, False], ids=["fetch", "acknowledge"])
def test_closing_session_acknowledges_before_it_releases(by_fetch: bool) -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        gateway.rows()
        if by_fetch:
            closed = await gateway.fetch(-1, ORDERS, reject=((0, 4),), max_wait_ms=LONG_MS)
            assert errors(closed) == {ORDERS: (ErrorCode.NONE, ErrorCode.NONE)}
        else:
            assert await gateway.acknowledge(-1, ORDERS, (0, 4)) == ErrorCode.NONE
        assert gateway.rows() == [(ACKNOWLEDGE, "orders"), (RELEASE_MEMBER, "orders")]
        assert (await gateway.fetch(1, ORDERS)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND

    run(test)


def test_acknowledgements_of_a_fetch_have_their_own_error_code() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        gateway.rows()
        assert errors(await gateway.fetch(1, ORDERS, reject=((0, 9),))) == {ORDERS: (ErrorCode.NONE, ErrorCode.NONE)}
        (row,) = gateway.sent(ACKNOWLEDGE)
        assert row.batches == (AcknowledgementBatch(0, 9, (AcknowledgeType.REJECT,)),)
        again = await gateway.fetch(2, ORDERS, reject=((0, 9),))
        assert errors(again) == {ORDERS: (ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE)}

    run(test)


def test_connection_end_releases_after_acknowledgements_of_a_fetch() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        gateway.rows()
        fetching = asyncio.ensure_future(gateway.fetch(1, ORDERS, reject=((0, 9),)))
        await gateway.until(lambda: gateway.job.rows)
        gateway.apis.sessions.on_disconnect(7)
        assert [row for row in gateway.rows() if row[0] != FETCH] == [
            (ACKNOWLEDGE, "orders"),
            (RELEASE_MEMBER, "orders"),
        ]
        await fetching

    run(test)


def test_connection_end_during_an_acknowledgement_raises_nothing() -> None:
    async def test(gateway: Gateway) -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        gateway.part().holdings.record_request([AcknowledgementBatch(0, 9, (1,))], "another request")
        gateway.rows()
        fetching = asyncio.ensure_future(gateway.fetch(1, ORDERS, reject=((0, 9),), max_wait_ms=LONG_MS))
        await gateway.until(lambda: gateway.job.rows)
        fetching.cancel()
        await asyncio.wait([fetching])
        for _ in range(10):
            await asyncio.sleep(0)  # lets the cancelled tasks end
        del fetching
        gc.collect()
        assert problems == []

    run(test)


def test_lock_timeout_of_a_response_is_the_remaining_time() -> None:
    """The records are ready, but the acknowledgement in the same request waits for the job."""

    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 19, LOCK_MS)
        part = gateway.part()
        part.deliver(Slice([AcquiredRange(0, 9, 1)], [], [], [], 10, 0), 0)
        part.holdings.record_request([AcknowledgementBatch(0, 9, (1,))], "another request")
        gateway.cluster.answers = [partition_data(log_batches.batch(10, 10))]
        fetching = asyncio.ensure_future(gateway.fetch(1, ORDERS, reject=((0, 9),)))
        await gateway.until(lambda: part.holdings.find_acknowledged([AcknowledgementBatch(10, 19, (1,))], 0))
        gateway.job.time_ms = 7_000
        (row,) = gateway.sent(ACKNOWLEDGE)
        answer = AcknowledgeResponse(row.id, row.reply_to, *part.key, "m")
        gateway.job.answers[row.id].set_result(answer)
        response = await fetching
        assert response.acquisition_lock_timeout_ms == LOCK_MS - 7_000

    run(test)


def test_shutdown_ends_waiting_fetches_and_still_acknowledges() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        await gateway.fetch(1, ORDERS)
        gateway.rows()
        waiting = asyncio.ensure_future(gateway.fetch(2, ORDERS, max_wait_ms=1_000_000))
        await asyncio.sleep(0)
        gateway.apis.sessions.drain()
        assert errors(await waiting) == {}
        acknowledged = await gateway.fetch(3, ORDERS, reject=((0, 9),), max_wait_ms=1_000_000)
        assert errors(acknowledged) == {ORDERS: (ErrorCode.NONE, ErrorCode.NONE)}
        assert gateway.rows() == [(ACKNOWLEDGE, "orders")]

    run(test)


# -- entries without records -------------------------------------------------------------------------------------------


def test_first_response_has_an_entry_for_each_new_partition() -> None:
    async def test(gateway: Gateway) -> None:
        assert errors(await gateway.fetch(0, ORDERS)) == {ORDERS: (0, 0)}
        assert errors(await gateway.fetch(1, ORDERS)) == {}
        assert errors(await gateway.fetch(2, BILLS)) == {BILLS: (0, 0)}
        assert errors(await gateway.fetch(3)) == {}
        assert errors(await gateway.fetch(0, BILLS, ORDERS)) == {BILLS: (0, 0), ORDERS: (0, 0)}

    run(test)


def test_fetch_that_opens_a_session_waits_for_records() -> None:
    async def test(gateway: Gateway) -> None:
        fetching = asyncio.ensure_future(gateway.fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS))
        await gateway.until(lambda: len(gateway.sent(FETCH)) == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not fetching.done()
        gateway.apis.sessions.drain()
        assert errors(await fetching) == {ORDERS: (0, 0), BILLS: (0, 0)}

    run(test)


# -- deleted topics ----------------------------------------------------------------------------------------------------


def test_rows_have_topic_ids() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        assert await gateway.acknowledge(1, ORDERS, (0, 9)) == ErrorCode.NONE
        assert {(row.type, row.topic, row.topic_id) for row in gateway.job.rows} == {
            (kind, "orders", topic_id_text(ORDERS)) for kind in (RELEASE_MEMBER, FETCH, ACKNOWLEDGE)
        }

    run(test)


def test_id_of_a_recreated_topic_is_unknown_and_sends_no_rows() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        gateway.cluster.there["orders"] = UUID(int=9), NODE
        await gateway.cluster.refresh()
        gateway.rows()
        assert await gateway.acknowledge(1, ORDERS, (0, 9)) == ErrorCode.UNKNOWN_TOPIC_ID
        response = await gateway.fetch(2, ORDERS, reject=((0, 9),), max_wait_ms=LONG_MS)
        assert errors(response) == {ORDERS: (ErrorCode.UNKNOWN_TOPIC_ID,) * 2}
        assert gateway.rows() == []

    run(test)


@pytest.mark.parametrize("again", [None, UUID(int=9)], ids=["deleted", "recreated"])
def test_acknowledgement_for_a_deleted_topic_fails(again: UUID | None) -> None:
    """The gateway has not learned of the deletion; it checks before it responds."""

    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.hand_out(0, 9)
        del gateway.cluster.there["orders"]
        if again is not None:
            gateway.cluster.there["orders"] = again, NODE
        assert await gateway.acknowledge(1, ORDERS, (0, 9)) == ErrorCode.UNKNOWN_TOPIC_ID
        assert gateway.cluster.asked == [["orders"]]
        response = await gateway.fetch(2, ORDERS, max_wait_ms=LONG_MS)
        assert errors(response) == {ORDERS: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}

    run(test)


def _deleted_as_the_job_says(gateway: Gateway) -> None:
    gateway.job.tell(TopicDeletedBroadcast("g", topic_id_text(ORDERS)))


def _deleted_as_a_broker_says(gateway: Gateway) -> None:
    del gateway.cluster.there["orders"]
    gateway.cluster.apply_metadata(gateway.cluster._answer(None))


def _led_elsewhere(gateway: Gateway) -> None:
    gateway.cluster.there["orders"] = ORDERS, OTHER_NODE
    gateway.cluster.apply_metadata(gateway.cluster._answer(None))


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (_deleted_as_the_job_says, ErrorCode.UNKNOWN_TOPIC_ID),
        (_deleted_as_a_broker_says, ErrorCode.UNKNOWN_TOPIC_ID),
        (_led_elsewhere, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_waiting_fetch_ends_when_its_partition_is_no_longer_here(
    happens: Callable[[Gateway], None], code: ErrorCode
) -> None:
    async def test(gateway: Gateway) -> None:
        fetching = asyncio.ensure_future(gateway.fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS))
        await gateway.until(lambda: len(gateway.sent(FETCH)) == 2)
        happens(gateway)
        assert errors(await fetching) == {ORDERS: (code, 0), BILLS: (0, 0)}

    run(test)


def test_topic_deleted_while_its_log_is_read_is_an_error() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 9, LOCK_MS)
        fetching = asyncio.ensure_future(gateway.fetch(1, ORDERS, max_wait_ms=LONG_MS))
        await gateway.until(lambda: gateway.cluster.fetches)
        _deleted_as_the_job_says(gateway)
        assert errors(await fetching) == {ORDERS: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}

    run(test)


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_fetch_waits_for_readable_partitions_beside_failed_ones() -> None:
    async def test(gateway: Gateway) -> None:
        fetching = asyncio.ensure_future(gateway.fetch(0, UUID(int=99), SECRETS, ORDERS, max_wait_ms=LONG_MS))
        await gateway.until(lambda: gateway.sent(FETCH))
        gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))]
        gateway.job.acquire(0, 9, LOCK_MS)
        response = await fetching
        assert errors(response) == {
            ORDERS: (0, 0),
            UUID(int=99): (ErrorCode.UNKNOWN_TOPIC_ID, 0),
            SECRETS: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
        }
        (found,) = [entry.partitions[0] for entry in response.responses if entry.topic_id == ORDERS]
        assert [(r.first_offset, r.last_offset, r.delivery_count) for r in found.acquired_records] == [(0, 9, 1)]

    run(test)


def test_fetch_at_a_broker_that_is_not_the_leader_returns_the_leader() -> None:
    async def test(gateway: Gateway) -> None:
        _led_elsewhere(gateway)
        response = await gateway.fetch(0, ORDERS, max_wait_ms=LONG_MS)
        assert errors(response) == {ORDERS: (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)}
        assert response.responses[0].partitions[0].current_leader.leader_id == OTHER_NODE
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(OTHER_NODE, 9193)]

    run(test)


def test_response_has_records_of_several_partitions() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS, BILLS)
        for name, first in (("orders", 0), ("bills", 100)):
            gateway.part(name).read_ahead.record_demand("more", 5, 0)
            gateway.part(name).read_ahead.add_response("more", [AcquiredRange(first, first + 4, 1)], LOCK_MS, 0)
        gateway.cluster.answers = [partition_data(log_batches.batch(first, 5)) for first in (100, 0)]
        response = await gateway.fetch(1)
        assert {
            entry.topic_id: [(r.first_offset, r.last_offset) for r in entry.partitions[0].acquired_records]
            for entry in response.responses
        } == {ORDERS: [(0, 4)], BILLS: [(100, 104)]}

    run(test)


def test_read_ahead_delivers_each_last_attempt_in_its_own_response() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))]
        granted = (AcquiredRange(0, 3, 1), AcquiredRange(4, 5, 5), AcquiredRange(6, 9, 1))
        gateway.job.answer(granted, LOCK_MS)
        responses = [await gateway.fetch(epoch, ORDERS, max_wait_ms=LONG_MS) for epoch in range(1, 5)]
        found = [response.responses[0].partitions[0].acquired_records for response in responses]
        assert [[(r.first_offset, r.last_offset, r.delivery_count) for r in ranges] for ranges in found] == [
            [(0, 3, 1)],
            [(4, 4, 5)],
            [(5, 5, 5)],
            [(6, 9, 1)],
        ]

    run(test)


def test_a_fetch_with_min_bytes_zero_returns_the_records_of_the_log() -> None:
    async def test(gateway: Gateway) -> None:
        gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))]
        fetch = asyncio.create_task(gateway.fetch(0, ORDERS, max_wait_ms=LONG_MS, min_bytes=0))
        await gateway.until(lambda: gateway.sent(FETCH))
        assert gateway.sent(FETCH)[0].max_wait_ms == ROUND_MS
        gateway.job.acquire(0, 9, LOCK_MS)
        assert acquired(await fetch) == [(0, 9)]

    run(test)


def test_a_fetch_with_min_bytes_zero_waits_for_one_answer_of_the_job() -> None:
    async def test(gateway: Gateway) -> None:
        fetch = asyncio.create_task(gateway.fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS, min_bytes=0))
        await gateway.until(lambda: len(gateway.sent(FETCH)) == 2)
        gateway.job.answer((), -1)  # the last demand
        for _ in range(10):
            await asyncio.sleep(0)
        assert not fetch.done()  # one partition has had no answer
        gateway.job.rows.pop()
        gateway.job.answer((), -1)
        assert acquired(await fetch) == []
        assert len(gateway.sent(FETCH)) == 1

    run(test)


def test_a_fetch_with_min_bytes_zero_ends_after_max_wait() -> None:
    async def test(gateway: Gateway) -> None:
        assert acquired(await gateway.fetch(0, ORDERS, max_wait_ms=1, min_bytes=0)) == []
        gateway.job.acquire(0, 9, LOCK_MS)
        gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))]
        assert acquired(await gateway.fetch(1, ORDERS, max_wait_ms=LONG_MS, min_bytes=0)) == [(0, 9)]

    run(test)


def test_a_fetch_with_min_bytes_zero_replaces_a_demand_that_stands() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        (standing,) = gateway.sent(FETCH)
        fetch = asyncio.create_task(gateway.fetch(1, ORDERS, max_wait_ms=LONG_MS, min_bytes=0))
        await gateway.until(lambda: len(gateway.sent(FETCH)) == 2)
        gateway.job.answer_to(standing, (), -1)  # as the job does, whose place the new one takes
        for _ in range(10):
            await asyncio.sleep(0)
        assert not fetch.done()
        gateway.job.answer((), -1)
        assert acquired(await fetch) == []
        assert [row.max_wait_ms for row in gateway.sent(FETCH)] == [DEMAND_WAIT_MS, ROUND_MS]

    run(test)


def test_fetch_without_readable_partitions_returns_immediately() -> None:
    async def test(gateway: Gateway) -> None:
        response = await gateway.fetch(0, UUID(int=99), SECRETS, max_wait_ms=LONG_MS)
        assert errors(response) == {
            UUID(int=99): (ErrorCode.UNKNOWN_TOPIC_ID, 0),
            SECRETS: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
        }

    run(test)


def test_empty_log_read_archives_nothing_and_the_fetch_retries() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 499, LOCK_MS)
        gateway.rows()
        shown = partition_data(log_batches.batch(100, 400))
        gateway.cluster.answers = [partition_data(), partition_data(), shown]
        response = await gateway.fetch(1, ORDERS, max_wait_ms=LONG_MS)
        (found,) = response.responses[0].partitions
        assert [(r.first_offset, r.last_offset) for r in found.acquired_records] == [(100, 499)]
        assert len(gateway.cluster.fetches) == 3
        (gap,) = gateway.sent(ACKNOWLEDGE)  # a later batch was read
        assert (gap.batches, gap.acquired) == (
            (AcknowledgementBatch(0, 99, (AcknowledgeType.GAP,)),),
            (AcquiredRange(0, 99, 1),),
        )

    run(test)


def test_records_that_are_never_read_are_released_before_their_lock_ends() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 499, LOCK_MS)
        assert errors(await gateway.fetch(1, ORDERS)) == {}
        gateway.rows()
        gateway.job.time_ms = LOCK_MS - 2_000
        gateway.apis.sessions.upkeep()
        assert [(row.type, row.acquired) for row in gateway.job.rows] == [(UNACQUIRE, (AcquiredRange(0, 499, 1),))]

    run(test)


def test_records_below_the_log_start_do_not_block_a_fetch() -> None:
    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 499, LOCK_MS)
        gateway.rows()
        gateway.cluster.answers = [
            partition_data(error=int(ErrorCode.OFFSET_OUT_OF_RANGE), start=490),
            partition_data(log_batches.batch(490, 10)),
        ]
        response = await gateway.fetch(1, ORDERS, max_wait_ms=LONG_MS)
        (found,) = response.responses[0].partitions
        assert [(r.first_offset, r.last_offset) for r in found.acquired_records] == [(490, 499)]
        assert gateway.sent(ACKNOWLEDGE) == []  # the job finds the log start offset itself

    run(test)


def test_records_are_read_at_the_isolation_level_of_their_acquisition() -> None:
    """The group's isolation level was altered while records of both levels were buffered."""

    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 9, LOCK_MS, read_committed=True)
        gateway.part().read_ahead.record_demand("more", 10, 0)
        gateway.part().read_ahead.add_response("more", [AcquiredRange(10, 19, 1)], LOCK_MS, 0)
        shown = [partition_data(log_batches.batch(0, 20)), partition_data(log_batches.batch(0, 20))]
        gateway.cluster.answers = shown
        first, second = await gateway.fetch(1, ORDERS), await gateway.fetch(2, ORDERS)
        assert [
            [(r.first_offset, r.last_offset) for r in response.responses[0].partitions[0].acquired_records]
            for response in (first, second)
        ] == [[(0, 9)], [(10, 19)]]
        assert [fetch.isolation_level for fetch in gateway.cluster.fetches] == [1, 0]

    run(test)


def test_alteration_to_read_committed_releases_earlier_acquisitions() -> None:
    """Records that were acquired earlier may be of transactions that have since been aborted."""

    async def test(gateway: Gateway) -> None:
        await gateway.fetch(0, ORDERS)
        gateway.job.acquire(0, 9, LOCK_MS)
        gateway.alter_group(isolation_level=IsolationLevel.READ_COMMITTED)
        gateway.rows()
        gateway.cluster.answers = [partition_data(log_batches.batch(0, 20))]
        response = await gateway.fetch(1, ORDERS, max_wait_ms=1)
        assert not response.responses
        assert [row.acquired for row in gateway.sent(UNACQUIRE)] == [(AcquiredRange(0, 9, 1),)]
        gateway.job.acquire(0, 4, LOCK_MS, read_committed=True)
        response = await gateway.fetch(2, ORDERS)
        found = response.responses[0].partitions[0].acquired_records
        assert [(r.first_offset, r.last_offset) for r in found] == [(0, 4)]

    run(test)


async def polls_half_a_batch(gateway: Gateway, acquire_mode: int, max_wait_ms: int = LONG_MS) -> Any:
    """Fetch 5 records, where the log has one batch of 10 and the job has acquired the first 5."""
    gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))] * 2
    await gateway.fetch(0, ORDERS, max_records=5)
    gateway.job.acquire(0, 4, LOCK_MS)
    gateway.rows()
    return asyncio.create_task(
        gateway.fetch(1, ORDERS, max_records=5, max_wait_ms=max_wait_ms, acquire_mode=acquire_mode)
    )


def acquired(response: Any) -> list[tuple[int, int]]:
    return [
        (found.first_offset, found.last_offset)
        for entry in response.responses
        for partition in entry.partitions
        for found in partition.acquired_records
    ]


def test_rest_of_a_split_record_batch_is_waited_for() -> None:
    async def test(gateway: Gateway) -> None:
        fetch = await polls_half_a_batch(gateway, BATCH_OPTIMIZED)
        await gateway.until(lambda: gateway.sent(FETCH))
        assert [row.max_records for row in gateway.sent(FETCH)] == [5]
        gateway.job.acquire(5, 9, LOCK_MS)
        assert acquired(await fetch) == [(0, 9)]

    run(test)


def test_rest_of_a_record_batch_held_by_others_is_not_waited_for() -> None:
    async def test(gateway: Gateway) -> None:
        fetch = await polls_half_a_batch(gateway, BATCH_OPTIMIZED)
        await gateway.until(lambda: gateway.sent(FETCH))
        gateway.job.acquire(20, 24, LOCK_MS)
        assert acquired(await fetch)[:1] == [(0, 4)]

    run(test)


def test_part_of_a_record_batch_is_sent_after_max_wait() -> None:
    async def test(gateway: Gateway) -> None:
        assert acquired(await (await polls_half_a_batch(gateway, BATCH_OPTIMIZED, max_wait_ms=20))) == [(0, 4)]

    run(test)


def test_record_limit_splits_a_record_batch() -> None:
    async def test(gateway: Gateway) -> None:
        assert acquired(await (await polls_half_a_batch(gateway, RECORD_LIMIT))) == [(0, 4)]

    run(test)
