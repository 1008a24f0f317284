"""What rude clients cost others: memory, descriptors, places, turns at the login. Over real sockets."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.clients.frame_budget import SMALL_BYTES
from sharegroup.gateway.server import Gateway
from tests.harness.event_loop import advance, until
from tests.processes.served_clients import Client, Serve

T = TypeVar("T")
MIB = 1_048_576
RUDE, ANOTHER = "127.0.0.2", "127.0.0.3"
#: Linux has all of 127.0.0.0/8.
many_addresses = pytest.mark.skipif(sys.platform != "linux", reason="this machine has one loopback address")


def unfinished_bytes(gateway: Gateway) -> int:
    """What the requests that have begun to come take of memory."""
    connections = [each for each in gateway.parts.connections if isinstance(each, ClientConnection)]
    return sum(len(each._frame or b"") for each in connections)


# -- memory ------------------------------------------------------------------------------------------------------------

#: The beginning of a Produce of 100 MB.
HUGE = struct.pack(">ihhih", 100_000_000, 0, 9, 1, -1)


async def test_half_sent_requests_take_one_share_of_memory_and_end(
    caplog: pytest.LogCaptureFixture, serve: Serve
) -> None:
    """Of ten, one is read; each is closed when it has had its turn and does not come on."""
    sent = 30 * MIB

    async def send(client: Client) -> None:
        client.send(HUGE)
        for _ in range(sent // MIB):
            client.send(bytes(MIB))
            await client.writer.drain()

    config = {"gateway.queued.max.request.bytes": 110 * MIB, "gateway.request.stall.timeout.ms": 200}
    gateway, client = await serve(config)
    most = 0
    rude = [await client.another().connect() for _ in range(10)]
    sending = [asyncio.ensure_future(send(each)) for each in rude]
    good = await client.connect()
    while gateway.parts.connections and len(gateway.parts.connections) > 1:
        assert await good.is_served()
        most = max(most, unfinished_bytes(gateway))
        gateway.parts.connections.close_idle()
        await asyncio.sleep(0.005)
    await asyncio.gather(*sending, return_exceptions=True)
    assert await good.is_served()
    assert sent // 2 < most < 2 * sent + 10 * 2 * SMALL_BYTES


async def test_small_requests_do_not_wait_for_the_budget(serve: Serve) -> None:
    gateway, client = await serve({"gateway.queued.max.request.bytes": MIB})
    rude = await client.another().connect()
    rude.send(HUGE + bytes(SMALL_BYTES))
    await until(lambda: gateway.parts.budget.used_bytes > 0)
    waiting = await client.another().connect()
    waiting.send(HUGE + bytes(SMALL_BYTES))
    await until(lambda: gateway.parts.budget.waiting_count == 1)
    assert await (await client.connect()).is_served()
    assert gateway.parts.budget.waiting_count == 1


async def test_who_goes_away_gives_its_share_back(serve: Serve) -> None:
    gateway, client = await serve()
    clients = [await client.another().connect() for _ in range(3)]
    for each in clients:
        each.send(HUGE + bytes(SMALL_BYTES))
    await until(lambda: gateway.parts.budget.waiting_count == 2)
    for each in clients:
        each.close()
    await until(lambda: not gateway.parts.connections)
    assert gateway.parts.budget.used_bytes + gateway.parts.budget.waiting_count == 0


async def test_a_large_request_that_comes_slowly_but_surely_is_read_to_its_end(serve: Serve) -> None:
    """It takes four times as long as a request may stall. It goes on to the broker then, which is away."""
    gateway, client = await serve({"gateway.request.stall.timeout.ms": 100_000})
    assert await (await client.connect()).is_served()
    (connection,) = (each for each in gateway.parts.connections if isinstance(each, ClientConnection))
    size, part = 2 * MIB, 2 * SMALL_BYTES
    request = struct.pack(">ihhih", size, 0, 9, 1, -1) + bytes(size - 10)
    parts = [request[start : start + part] for start in range(0, len(request), part)]
    for number, each in enumerate(parts[:-1], start=1):
        client.send(each)
        await until(lambda number=number: connection.unfinished_bytes == number * part - 4)
        advance(30)
        gateway.parts.connections.close_idle()
        assert len(gateway.parts.connections) == 1
    client.send(parts[-1])
    assert await client.is_closed()


# -- descriptors and places --------------------------------------------------------------------------------------------


@pytest.fixture
def descriptors() -> Iterator[Callable[[], None]]:
    """Leaves the process no descriptor more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def none_left() -> None:
        with socket.socket() as probe:
            resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno(), hard))

    yield none_left
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_descriptors_who_comes_is_refused_and_others_are_served(
    descriptors: Callable[[], None], caplog: pytest.LogCaptureFixture, serve: Serve
) -> None:
    _, client = await serve()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    served = await client.another().connect()
    assert await served.is_served()
    waiting = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(40)]
    descriptors()
    refused = 0
    for each in waiting:
        each.setblocking(False)
        try:
            refused += await asyncio.get_running_loop().sock_recv(each, 1) == b""
        except ConnectionError:
            refused += 1
    assert await served.is_served()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for each in waiting:  # not before: each leaves a descriptor
        each.close()
    assert refused == 40
    assert await (await client.connect()).is_served()
    lines = [record.message for record in caplog.records if "failed to accept" in record.message]
    assert len(lines) == 1
    assert "ulimit -n" in lines[0]


@many_addresses
async def test_an_address_has_its_limit_and_no_other_address_has_it(serve: Serve) -> None:
    _, client = await serve({"gateway.max.connections.per.ip": 2})
    rude = [await client.another(RUDE).connect() for _ in range(3)]
    assert await rude[2].is_closed()
    good = await client.another(ANOTHER).connect()
    assert await good.is_served()


@many_addresses
async def test_an_address_with_an_override_is_not_limited_by_what_is_for_any(serve: Serve) -> None:
    config = {
        "gateway.max.connections.per.ip": 2,
        "gateway.max.connection.creation.rate.per.ip": 1,
        "gateway.max.connections.per.ip.overrides": f"{ANOTHER}:100",
    }
    _, client = await serve(config)
    probes = [await client.another(ANOTHER).connect() for _ in range(20)]
    assert sum([await each.is_served() for each in probes]) == 20


async def test_who_connects_too_often_is_refused(caplog: pytest.LogCaptureFixture, serve: Serve) -> None:
    gateway, client = await serve({"gateway.max.connection.creation.rate.per.ip": 3})
    begin = asyncio.get_running_loop().time()
    served = refused = 0
    while refused < 27:
        try:
            served += await (await client.another().connect()).is_served()
        except (ConnectionError, asyncio.IncompleteReadError):
            refused += 1
    elapsed_s = asyncio.get_running_loop().time() - begin
    assert 3 <= served <= 3 * (1 + elapsed_s)
    assert len(gateway.parts.connections) == served
    lines = [record.message for record in caplog.records if "rejected a connection" in record.message]
    assert len(lines) == 1
    assert "gateway.max.connection.creation.rate.per.ip" in lines[0]


# -- logins ------------------------------------------------------------------------------------------------------------


@many_addresses
async def test_who_guesses_passwords_slows_himself_alone(users: dict[str, object], serve: Serve) -> None:
    """Each wrong guess costs the rude address ten seconds. The good one logs in meanwhile."""

    async def guess(client: Client) -> tuple[int, bytes]:
        await client.connect()
        await client.handshake()
        return await client.authenticate(b"\0alice\0guess")

    delay_s, loop = 10, asyncio.get_running_loop()
    delayed = {"gateway.connection.failed.authentication.delay.ms": delay_s * 1000}
    gateway, client = await serve({**users, **delayed})
    begin = loop.time()
    guessing = [asyncio.ensure_future(guess(client.another(RUDE))) for _ in range(50)]
    await until(lambda: len(gateway.parts.connections) == 50)
    good = await client.another(ANOTHER).connect()
    await good.handshake()
    assert await good.authenticate(b"\0alice\0secret") == (0, b"")
    assert sum(each.done() for each in guessing) <= min((loop.time() - begin) / delay_s, len(guessing) - 1)
    for each in guessing:
        each.cancel()
    await asyncio.gather(*guessing, return_exceptions=True)
    advance(delay_s)


# -- quotas ------------------------------------------------------------------------------------------------------------


async def throttle_time_ms(client: Client) -> int:
    """The throttle time of a request for the share coordinator, which needs no broker."""
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"])
    return int((await client.ask(asked, FindCoordinatorResponse, 4)).throttle_time_ms)


async def test_who_asks_more_than_its_quota_is_told_and_not_read_from(serve: Serve) -> None:
    _, client = await serve({"gateway.quota.request.rate": 2})
    await client.connect()
    loop = asyncio.get_running_loop()
    begin, times = loop.time(), [await throttle_time_ms(client) for _ in range(2)]
    while not times[-1]:  # the quota of a second is there at the start, and grows while the requests are on their way
        times.append(await throttle_time_ms(client))
    assert times[:2] == [0, 0]
    assert times[-1] <= 500
    await throttle_time_ms(client)
    assert loop.time() - begin >= times[-1] / 1000


@pytest.mark.parametrize("rate", [0, 1_000])
async def test_who_keeps_to_its_quota_is_told_nothing(rate: int, serve: Serve) -> None:
    _, client = await serve({"gateway.quota.request.rate": rate})
    await client.connect()
    assert [await throttle_time_ms(client) for _ in range(20)] == [0] * 20
