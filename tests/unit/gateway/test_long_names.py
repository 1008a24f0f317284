"""Long names of clients take as little memory as short ones."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.gateway.clients.quotas import Quotas
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.share_session import SessionKey
from sharegroup.protocol.short_names import LONGEST, shorten_name
from tests.unit.gateway.scripted_upstream import FixedTables

NAMES = 500
#: This many names of 32 KB take 16 MB.
MOST_BYTES = 2_000_000


def long_name(number: int) -> str:
    return f"{number}-".ljust(0x7FFF, "x")


async def leases() -> object:
    kept = MemberLeases()
    for number in range(NAMES):
        kept.get_or_create(long_name(number), long_name(number)).extend(100)
    assert kept.get(long_name(1), long_name(1)).is_valid_at(99)
    assert not kept.get(long_name(1), long_name(2)).is_valid_at(0)
    return kept


async def identities() -> object:
    configs: Any = SimpleNamespace(group_config=lambda _: SimpleNamespace(client_id_as_instance_id=True))
    kept = MemberIdentities(configs)
    for number in range(NAMES):
        kept.add(SessionKey("g", long_name(number)), f"m{number}")
    assert kept.get(SessionKey("g", long_name(7))).member_id == "m7"
    return kept


async def other_kinds() -> object:
    async def features(_: int) -> None:
        raise UpstreamUnavailableError("away")

    cluster: Any = SimpleNamespace(node_ids=[1], features=features)
    tables: Any = FixedTables()
    kept = UpstreamGroups(cluster, tables)
    for number in range(NAMES):
        await kept.other_kind(1, long_name(number))
    return kept


async def quotas() -> object:
    kept = Quotas(request_rate=1)
    for number in range(NAMES):
        kept.record_request("User:ANONYMOUS", long_name(number), 0, 0.0)
    return kept


@pytest.mark.parametrize("remember", [leases, identities, other_kinds, quotas])
def test_long_names_are_stored_shortened(remember: Callable[[], Awaitable[object]]) -> None:
    async def test() -> int:
        tracemalloc.start()
        try:
            kept = await remember()
            size, _ = tracemalloc.get_traced_memory()
            assert kept
            return size
        finally:
            tracemalloc.stop()

    assert asyncio.run(test()) < MOST_BYTES


def test_shortened_names_stay_distinct() -> None:
    long = "x" * (LONGEST + 1)
    keys = [shorten_name(name) for name in ("", "g", long[:-1], long, long + "x")]
    assert len(set(keys)) == len(keys)
    assert keys[:3] == ["", "g", long[:-1]]
    with pytest.raises(UnicodeEncodeError):
        keys[3].encode()
