"""One snapshot of the metadata for all callers: its age, and the requests for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from kafka.protocol.metadata import MetadataResponse

from sharegroup.gateway.upstream import metadata_snapshots
from sharegroup.gateway.upstream.all_metadata import DecodedMetadata
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import decode_response, encode_response
from tests.unit.gateway.wire.test_metadata_bytes import response, topic

T = TypeVar("T")
VERSION = 12


def metadata(*topics: Any, version: int = VERSION) -> MetadataBytes:
    encoded = memoryview(encode_response(response(list(topics)), version, 7))
    return decode_response(MetadataBytes, version, encoded[4:])


class Upstream:
    """Returns `now` once it is allowed to respond."""

    def __init__(self) -> None:
        self.now = metadata(topic("a"))
        self.asked: list[int | None] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_away = False

    async def ask(self, version: int | None) -> MetadataBytes:
        self.asked.append(version)
        await self.may_answer.wait()
        if self.is_away:
            raise UpstreamUnavailableError("away")
        return MetadataBytes(self.now.version, bytes(self.now.body))


def run(test: Callable[[Upstream, MetadataSnapshots], Awaitable[T]]) -> T:
    async def main() -> T:
        upstream = Upstream()
        return await test(upstream, MetadataSnapshots(upstream.ask))

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_concurrent_callers_cause_one_request() -> None:
    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> tuple[int, list[int | None]]:
        found = await asyncio.gather(*(snapshots.get_fresh(VERSION) for _ in range(50)))
        return len(set(map(id, found))), upstream.asked

    assert run(test) == (1, [VERSION])


def test_each_version_is_requested_separately() -> None:
    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> list[int | None]:
        await snapshots.get_fresh(12)
        await snapshots.get_fresh(9)
        return upstream.asked

    assert run(test) == [12, 9]


@pytest.mark.parametrize(("fresh_s", "times"), [(60.0, 1), (0.0, 3)])
def test_fresh_snapshot_is_used_again(monkeypatch: pytest.MonkeyPatch, fresh_s: float, times: int) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", fresh_s)

    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> int:
        for _ in range(3):
            await snapshots.get_fresh(VERSION)
        return len(upstream.asked)

    assert run(test) == times


def test_equal_bytes_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 0.0)

    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> list[bool]:
        first = await snapshots.get_fresh(VERSION)
        second = await snapshots.get_fresh(VERSION)
        upstream.now = metadata(topic("a", 2))
        return [second is first, await snapshots.get_fresh(VERSION) is first]

    assert run(test) == [True, False]


def test_snapshot_requested_before_a_change_is_not_used_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the request was in flight."""
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 60.0)

    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> tuple[bool, list[str]]:
        upstream.may_answer.clear()
        on_its_way = asyncio.ensure_future(snapshots.get_fresh(VERSION))
        while not upstream.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)  # the loop's clock may stand still between two steps
        snapshots.invalidate()
        upstream.may_answer.set()
        await on_its_way
        is_fresh = snapshots.is_fresh(VERSION)
        upstream.now = metadata(topic("b"))
        await asyncio.sleep(0.001)
        return is_fresh, list((await snapshots.get_fresh(VERSION)).topics)

    assert run(test) == (False, ["b"])


def test_cancelled_caller_does_not_cancel_the_request() -> None:
    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> list[str]:
        upstream.may_answer.clear()
        impatient, patient = (asyncio.ensure_future(snapshots.get_fresh(VERSION)) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        upstream.may_answer.set()
        return list((await patient).topics)

    assert run(test) == ["a"]


def test_next_caller_retries_unavailable_brokers() -> None:
    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> list[str]:
        upstream.is_away = True
        with pytest.raises(UpstreamUnavailableError):
            await snapshots.get_fresh(VERSION)
        upstream.is_away = False
        return list((await snapshots.get_fresh(VERSION)).topics)

    assert run(test) == ["a"]


def test_unreadable_response_is_reported_as_unavailable() -> None:
    async def test(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
        upstream.now = MetadataBytes(VERSION, upstream.now.body[:-20])
        with pytest.raises(UpstreamUnavailableError, match="cannot be read"):
            await snapshots.get_fresh(VERSION)

    run(test)


def names_and_partitions(decoded: MetadataResponse) -> dict[str, int]:
    return {found.name: len(found.partitions) for found in decoded.topics}


def test_only_topics_that_have_changed_are_decoded_again() -> None:
    kept = DecodedMetadata()
    first = kept.decode(metadata(topic("a", 3), topic("b", 1), topic("c", 1)))
    second = kept.decode(metadata(topic("b", 2), topic("a", 3), topic("d", 1)))
    assert names_and_partitions(second) == {"b": 2, "a": 3, "d": 1}
    assert next(found for found in second.topics if found.name == "a") is first.topics[0]
    assert [broker.host for broker in second.brokers] == ["b0", "b1"]
    assert second.cluster_id == "c"


def test_equal_bytes_give_the_same_response() -> None:
    kept = DecodedMetadata()
    assert kept.decode(metadata(topic("a", 3))) is kept.decode(metadata(topic("a", 3)))


def test_other_version_is_decoded_separately() -> None:
    kept = DecodedMetadata()
    kept.decode(metadata(topic("a", 3)))
    assert names_and_partitions(kept.decode(metadata(topic("a", 3), version=9))) == {"a": 3}
