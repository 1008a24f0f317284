"""One gateway with two cells: the job that gets each request, and the callbacks for each response."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.gateway.job_client.cell_channel import CellChannel
from sharegroup.gateway.job_client.cell_channels import CellChannels
from sharegroup.gateway.job_client.job_channel import JobUnavailableError
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY, MemberLeftBroadcast, encode_broadcast
from sharegroup.protocol.rows.gateway_rows import GATEWAY_KEY, GatewayAddress, GatewayRow
from sharegroup.protocol.rows.response_rows import encode_response
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from tests.unit.gateway.known_cluster import KnownCluster


class Appender:
    """Records the topics of appended rows by group, and the topics of announcements."""

    def __init__(self) -> None:
        self.appended: list[tuple[str, str]] = []
        self.announced: list[tuple[str, str]] = []

    def append(self, topic: str, key: bytes, value: bytes) -> asyncio.Future[int]:
        self.appended.append((topic, json.loads(value)["group_id"]))
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(5)
        return done

    def append_everywhere(self, topic: str, key: bytes, value: bytes) -> list[asyncio.Future[int]]:
        self.announced.append((topic, key.decode()))
        return [asyncio.get_running_loop().create_future()]

    def now_ms(self) -> int:
        return 42


def channels(appender: Appender) -> tuple[CellChannels, dict[str, CellChannel]]:
    """Return channels to cells a and b; a group belongs to the cell that its name begins with."""
    of_cells = {
        cell: CellChannel(
            {},
            RowTopics(f"g-{cell}", f"p-{cell}", f"r-{cell}"),
            1.0,
            KnownCluster(),
            appender,  # type: ignore[arg-type]
        )
        for cell in ("a", "b")
    }
    for channel in of_cells.values():
        channel._ready.set()
    return CellChannels(of_cells, lambda group_id: group_id[0]), of_cells


def fetch(job: CellChannels, group_id: str) -> FetchRequest:
    named = job.new_id(), group_id, "orders", "id", 0, "m", -1, job.reply_to
    return FetchRequest(*named, max_records=1, max_wait_ms=1)


async def test_request_goes_to_the_cell_of_its_group() -> None:
    appender = Appender()
    job, _ = channels(appender)
    assert await job.append(fetch(job, "a1")) == 5
    job.append_soon(fetch(job, "b1"))
    job.append_soon(DeleteGroupRequest(job.new_id(), "b1", job.reply_to))
    assert appender.appended == [("p-a", "a1"), ("p-b", "b1"), ("g-b", "b1")]
    assert job.now_ms() == 42


async def test_cell_without_a_job_does_not_block_the_others() -> None:
    appender = Appender()
    job, of_cells = channels(appender)
    of_cells["a"]._ready.clear()
    waits = asyncio.ensure_future(job.ask(fetch(job, "a1")))  # type: ignore[arg-type]  # it is a coroutine
    await job.append(fetch(job, "b1"))
    assert appender.appended == [("p-b", "b1")]
    assert not waits.done()
    waits.cancel()


async def test_response_is_delivered_once_and_broadcasts_of_each_job() -> None:
    job, of_cells = channels(Appender())
    told: list[Any] = []
    job.on_broadcast(told.append)
    request = fetch(job, "b1")
    job.subscribe(request.id, told.append)
    left = MemberLeftBroadcast("a1", "m", 3)
    answer = FetchResponse(request.id, job.reply_to, "b1", "orders", "id", 0, "m")

    def row(key: str, value: bytes) -> Any:
        return SimpleNamespace(key=key.encode(), value=value, offset=0)

    of_cells["a"]._receive([row(BROADCAST_KEY, encode_broadcast(left))])
    of_cells["b"]._receive([row(job.reply_to, json.dumps(encode_response(answer)).encode())])
    await asyncio.sleep(0)
    assert told == [left, answer]
    assert not any(channel._subscribers for channel in of_cells.values())


async def test_gateway_announces_itself_in_each_cell_with_topics() -> None:
    appender = Appender()
    job, of_cells = channels(appender)
    announced = GatewayRow(GatewayAddress("gateway", 9191), lives_ms=1)
    assert len(job.announce(announced)) == 2
    assert appender.announced == [("r-a", GATEWAY_KEY), ("r-b", GATEWAY_KEY)]
    of_cells["a"]._ready.clear()
    assert len(job.announce(announced)) == 1
    of_cells["b"]._ready.clear()
    with pytest.raises(JobUnavailableError):
        job.announce(announced)
