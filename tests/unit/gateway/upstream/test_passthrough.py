"""Forwarded requests: those without a response, and an unavailable broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest

from sharegroup.gateway.upstream.passthrough import Passthrough, expects_response
from sharegroup.kafka_clients.connections.broker_login import FORWARDED_LOGIN, ForwardedLogin
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, read_header
from sharegroup.kafka_clients.connections.reconnecting_connection import (
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    ConnectBackoff,
    ReconnectingConnection,
)
from tests.unit.gateway.wire_bytes import request_frame

VERSIONS = range(ProduceRequest.max_version + 1)


def produce(version: int, acks: int, transactional_id: str | None) -> memoryview:
    partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=b"records")
    topic = ProduceRequest.TopicProduceData(name="topic", topic_id=None, partition_data=[partition])
    body = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=[topic])
    return request_frame(body, version)


@pytest.mark.parametrize("transactional_id", [None, "", "tx" * 100], ids=["none", "empty", "long"])
@pytest.mark.parametrize("version", VERSIONS)
def test_only_acks_0_has_no_response(version: int, transactional_id: str | None) -> None:
    for acks in (-1, 0, 1):
        frame = produce(version, acks, transactional_id)
        assert expects_response(read_header(frame), frame) == (acks != 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_produce_is_malformed(version: int) -> None:
    frame = produce(version, 0, None)
    header = read_header(frame)
    for end in range(header.end, header.end + 2):
        with pytest.raises(MalformedRequestError):
            expects_response(header, frame[:end])


@given(st.integers(0, 12), st.binary(max_size=30))
def test_random_bytes_as_produce_are_malformed_or_read(version: int, body: bytes) -> None:
    frame = memoryview(b"\0\0" + version.to_bytes(2, "big") + b"\0\0\0\7\xff\xff" + body)
    try:
        assert expects_response(read_header(frame), frame) in (True, False)
    except MalformedRequestError:
        return


def test_other_requests_have_a_response() -> None:
    frame = memoryview(b"\0\1\0\4\0\0\0\7\xff\xff")
    assert expects_response(read_header(frame), frame)


async def test_topic_change_is_reported_before_the_response() -> None:
    loop = asyncio.get_running_loop()
    told: list[str] = []
    passthrough = Passthrough(("127.0.0.1", 1), {}, ConnectBackoff(), lambda api_key: told.append(str(api_key)))
    answers = [loop.create_future(), loop.create_future()]

    async def drained() -> None:
        return None

    link: Any = SimpleNamespace(keep_session=drained, wait_drained=drained, forward=lambda *_: answers[len(told_of)])
    passthrough._connection = link
    told_of: list[int] = []
    for number, api_key in enumerate((1, 20)):  # Fetch, DeleteTopics
        frame = memoryview(b"\0" + bytes([api_key]) + b"\0\4\0\0\0\7\xff\xff")
        answer = await passthrough.forward(read_header(frame), frame)
        assert answer is answers[number]
        answer.add_done_callback(lambda _: told.append("client"))
        told_of.append(number)
    assert told == []
    for future in answers:
        future.set_result(memoryview(b""))
    await asyncio.sleep(0)
    assert told == ["client", "20", "client"]


@pytest.mark.parametrize(
    ("settings", "kept"), [({}, 1), ({FORWARDED_LOGIN: ForwardedLogin("PLAIN", b"")}, 0)], ids=["own", "forwarded"]
)
async def test_forwarding_keeps_the_session_unless_the_client_does(settings: dict[str, object], kept: int) -> None:
    calls: list[str] = []

    async def called(name: str) -> None:
        calls.append(name)

    def forward(*_: object) -> asyncio.Future[memoryview]:
        calls.append("forward")
        return asyncio.get_running_loop().create_future()

    passthrough = Passthrough(("127.0.0.1", 1), settings, ConnectBackoff())
    link: Any = SimpleNamespace(
        keep_session=lambda: called("keep"), wait_drained=lambda: called("drain"), forward=forward
    )
    passthrough._connection = link
    frame = memoryview(b"\0\1\0\4\0\0\0\7\xff\xff")  # Fetch
    await passthrough.forward(read_header(frame), frame)
    assert calls == ["keep"] * kept + ["forward", "drain"]


def test_pause_between_attempts_doubles_up_to_its_limit() -> None:
    backoff = ConnectBackoff()
    assert backoff.remaining_s(5.0) == 0
    pauses = []
    for _ in range(8):
        backoff.record_failure(5.0)
        pauses.append(backoff.remaining_s(5.0))
    assert pauses[:3] == pytest.approx([FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S])
    assert pauses[-1] == pytest.approx(MAX_PAUSE_S)
    assert backoff.remaining_s(5.0 + MAX_PAUSE_S) == 0
    backoff.record_success()
    backoff.record_failure(9.0)
    assert backoff.remaining_s(9.0) == pytest.approx(FIRST_PAUSE_S)


class HangsUp(asyncio.Protocol):
    """Close and count all connections."""

    def __init__(self, connections: list[int]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connections.append(1)
        transport.abort()


async def hang_up(connections: list[int]) -> tuple[asyncio.Server, tuple[str, int]]:
    server = await asyncio.get_running_loop().create_server(lambda: HangsUp(connections), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    return server, (host, port)


def test_callers_share_one_attempt_to_connect() -> None:
    async def ask() -> tuple[list[BaseException], int, int]:
        connections: list[int] = []
        server, address = await hang_up(connections)
        kept = ReconnectingConnection(*address, {})
        first = await asyncio.gather(*(kept.features() for _ in range(100)), return_exceptions=True)
        attempts = len(connections)
        hasty = asyncio.ensure_future(kept.features())
        await asyncio.sleep(0)
        hasty.cancel()  # a cancelled caller does not cancel the attempt
        second = await asyncio.gather(*(kept.features() for _ in range(100)), hasty, return_exceptions=True)
        server.close()
        return [*first, *second[:-1]], attempts, len(connections)  # type: ignore[list-item]

    failures, attempts, attempts_at_the_end = asyncio.run(ask())
    assert {type(failure) for failure in failures} == {UpstreamUnavailableError}
    assert (attempts, attempts_at_the_end) == (1, 2)


def test_closing_a_connection_fails_its_callers() -> None:
    async def close() -> BaseException | None:
        server, address = await hang_up([])
        kept = ReconnectingConnection(*address, {})
        waiting = asyncio.ensure_future(kept.features())
        await asyncio.sleep(0)
        kept.close()
        await asyncio.wait([waiting])
        server.close()
        return waiting.exception()

    assert isinstance(asyncio.run(close()), UpstreamUnavailableError)


def test_connections_to_an_unavailable_broker_wait_before_a_retry() -> None:
    async def forward() -> tuple[bool, int]:
        connections: list[int] = []
        server, address = await hang_up(connections)
        server.close()
        await server.wait_closed()
        backoff = ConnectBackoff()
        frame = memoryview(b"\0\1\0\4\0\0\0\7\xff\xff")
        for _ in range(3):  # the second finds the back-off of the first and waits it out
            with pytest.raises(UpstreamUnavailableError):
                await Passthrough(address, {}, backoff).forward(read_header(frame), frame)
        return backoff.remaining_s(asyncio.get_running_loop().time()) > 0, len(connections)

    assert asyncio.run(forward()) == (True, 0)
