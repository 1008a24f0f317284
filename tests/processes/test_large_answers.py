"""Messages that take milliseconds to decode or encode are not processed on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse, DescribeGroupsResponse

from sharegroup.gateway.clients.request_loop import RequestLoop
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.connection import LARGE_BYTES, UpstreamConnection
from sharegroup.kafka_clients.connections.headers import RequestHeader

VERSION, CORRELATION_ID = 2, 1


def configs(topics: int) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    entries = [
        entry(name=f"config-{n}", value="1", read_only=False, config_source=5, is_sensitive=False, synonyms=[])
        for n in range(30)
    ]
    results = [
        result(error_code=0, error_message=None, resource_type=2, resource_name=f"topic-{n}", configs=entries)
        for n in range(topics)
    ]
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record whether each response was decoded or encoded on the event loop's thread."""
    places: list[bool] = []

    def watched(work: Any) -> Any:
        def call(*args: Any) -> Any:
            places.append(threading.current_thread() is threading.main_thread())
            return work(*args)

        return call

    for name in ("decode_response", "encode_response"):
        monkeypatch.setattr(wire, name, watched(getattr(wire, name)))
    return places


@pytest.mark.parametrize(("topics", "is_on_loop"), [(1, True), (200, False)])
def test_large_response_of_a_broker_is_decoded_on_a_thread(topics: int, is_on_loop: bool, on_loop: list[bool]) -> None:
    answer = bytes(wire.encode_response(configs(topics), VERSION, CORRELATION_ID))
    assert (len(answer) > LARGE_BYTES) is not is_on_loop
    on_loop.clear()

    async def test() -> None:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.readexactly(4)
                writer.write(answer)
                await reader.read()
            writer.transport.abort()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = await UpstreamConnection.connect("127.0.0.1", server.sockets[0].getsockname()[1], {})
        found = await connection.ask(DescribeConfigsRequest(resources=[]), DescribeConfigsResponse, VERSION)
        assert [result.resource_name for result in found.results] == [f"topic-{n}" for n in range(topics)]
        connection.close()
        await ended.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(test())
    assert on_loop == [is_on_loop]


def test_response_to_an_administrator_is_encoded_on_a_thread(on_loop: list[bool]) -> None:
    async def encoded(response: Any) -> bytes:
        return b"".join(await RequestLoop._encoded(RequestHeader(response.API_KEY, 2, 7, "test", 0), response))

    assert asyncio.run(encoded(configs(3)))[4:8] == b"\0\0\0\7"
    asyncio.run(encoded(DescribeGroupsResponse(throttle_time_ms=0, groups=[])))
    assert on_loop == [False, True]
