"""Delivery of rows of the response topic to waiting callers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.job_client.cell_channel import CellChannel
from sharegroup.gateway.job_client.job_channel import JobUnavailableError, NotDurableError
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.protocol.rows.broadcasts import (
    BROADCAST_KEY,
    MemberLeftBroadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
    encode_broadcast,
)
from sharegroup.protocol.rows.gateway_rows import GATEWAY_KEY, GatewayAddress, GatewayRow, encode_gateway
from sharegroup.protocol.rows.response_rows import encode_response
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest
from sharegroup.protocol.rows.share_group_responses import DeleteGroupResponse
from sharegroup.protocol.rows.share_partition_responses import FetchResponse, WantedNotice
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.recording_job import KEY

APPENDED_MS = 7


def run(test: Callable[[CellChannel, list[Any]], None]) -> list[Any]:
    """Record the callbacks for the rows that a test delivers."""
    told: list[Any] = []

    async def main() -> None:
        channel = CellChannel({}, RowTopics("g", "p", "r"), 1.0, KnownCluster())
        channel.on_broadcast(told.append)
        channel.on_wanted(told.append)
        channel.on_gateway(lambda *heard: told.append(heard))
        rows: list[Any] = []
        test(channel, rows)
        channel._receive(rows)
        while channel._subscribers and not told:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    return told


def row(key: str | None, value: bytes) -> Any:
    return SimpleNamespace(key=None if key is None else key.encode(), value=value, offset=0, timestamp=APPENDED_MS)


def response(channel: CellChannel, kind: type[FetchResponse | WantedNotice], request_id: str) -> Any:
    found = kind(request_id, channel.reply_to, *KEY, "m")
    return row(channel.reply_to, json.dumps(encode_response(found)).encode())


def test_rows_are_delivered_in_log_order() -> None:
    left, gone = MemberLeftBroadcast("g", "m", 3), TopicDeletedBroadcast("g", "id")

    def test(channel: CellChannel, rows: list[Any]) -> None:
        channel.subscribe("1", lambda found: told_responses.append(found.id))
        rows += [
            row(BROADCAST_KEY, encode_broadcast(left)),
            response(channel, FetchResponse, "1"),
            row("another gateway", b"no row at all"),
            row(None, b""),
            response(channel, WantedNotice, ""),
            row(BROADCAST_KEY, encode_broadcast(gone)),
        ]

    told_responses: list[str] = []
    assert run(test) == [left, KEY, gone]
    assert told_responses == ["1"]


async def test_timeout_reports_whether_the_job_is_loading() -> None:
    """From the row of a new leader until its first response to a request to a group."""
    told: list[ErrorCode] = []
    channel = CellChannel({}, RowTopics("g", "p", "r"), 0.0, KnownCluster())

    async def ask() -> None:
        sent = asyncio.get_running_loop().create_future()
        sent.set_result(APPENDED_MS)
        with pytest.raises(JobUnavailableError) as caught:
            await channel._response(request, asyncio.get_running_loop().create_future(), sent)
        told.append(caught.value.code)

    request = DeleteGroupRequest("1", "g", channel.reply_to)
    await ask()
    channel._deliver([NewLeaderBroadcast(), FetchResponse("2", channel.reply_to, *KEY, "m")])
    await ask()
    channel._deliver([TopicDeletedBroadcast("g", "id")])
    await ask()
    channel._deliver([DeleteGroupResponse("3", channel.reply_to, "g")])
    await ask()
    assert told == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ]


async def test_request_may_limit_the_time_until_its_row_is_durable() -> None:
    """The row stays on its way, and the job does not count as unavailable."""
    channel = CellChannel({}, RowTopics("g", "p", "r"), 0.0, KnownCluster())
    request = DeleteGroupRequest("1", "g", channel.reply_to)
    sent, answered = (asyncio.get_running_loop().create_future() for _ in range(2))
    with pytest.raises(NotDurableError, match="within 0 s") as caught:
        await channel._response(request, answered, sent, durable_s=0.0)
    assert caught.value.sent is sent
    assert not sent.done()
    assert channel.timeouts == 0
    sent.set_exception(JobUnavailableError("rejected"))
    with pytest.raises(JobUnavailableError, match="rejected"):
        await channel._response(request, answered, sent, durable_s=0.0)


def test_announcement_is_delivered_with_its_append_time() -> None:
    said = GatewayRow(GatewayAddress("a", 9191), {}, 10_000)
    assert run(lambda _, rows: rows.append(row(GATEWAY_KEY, encode_gateway(said)))) == [(said, APPENDED_MS)]


def test_invalid_row_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    def test(channel: CellChannel, rows: list[Any]) -> None:
        rows += [
            row(BROADCAST_KEY, b"[]"),
            row(channel.reply_to, b"{"),
            row(GATEWAY_KEY, b"{}"),
            row(BROADCAST_KEY, encode_broadcast(NewLeaderBroadcast())),
        ]

    with caplog.at_level(logging.WARNING):
        assert run(test) == [NewLeaderBroadcast()]
    assert len([line for line in caplog.messages if "skipped an invalid" in line]) == 3
