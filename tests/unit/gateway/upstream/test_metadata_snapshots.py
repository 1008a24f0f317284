"""One snapshot of the metadata for all callers: its age, and the requests for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from sharegroup.gateway.upstream import metadata_snapshots
from sharegroup.gateway.upstream.all_metadata import DecodedMetadata
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import decode_response, encode_response
from tests.harness.event_loop import advance, settle, until
from tests.unit.gateway.wire.test_metadata_bytes import response, topic

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


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def snapshots(upstream: Upstream) -> MetadataSnapshots:
    return MetadataSnapshots(upstream.ask)


async def test_concurrent_callers_cause_one_request(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
    found = await asyncio.gather(*(snapshots.get_fresh(VERSION) for _ in range(50)))
    assert (len(set(map(id, found))), upstream.asked) == (1, [VERSION])


async def test_each_version_is_requested_separately(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
    await snapshots.get_fresh(12)
    await snapshots.get_fresh(9)
    assert upstream.asked == [12, 9]


@pytest.mark.parametrize(("fresh_s", "times"), [(60.0, 1), (0.0, 3)])
async def test_fresh_snapshot_is_used_again(
    monkeypatch: pytest.MonkeyPatch, fresh_s: float, times: int, upstream: Upstream, snapshots: MetadataSnapshots
) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", fresh_s)

    for _ in range(3):
        await snapshots.get_fresh(VERSION)
    assert len(upstream.asked) == times


async def test_equal_bytes_are_cut_once(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream, snapshots: MetadataSnapshots
) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 0.0)

    first = await snapshots.get_fresh(VERSION)
    second = await snapshots.get_fresh(VERSION)
    upstream.now = metadata(topic("a", 2))
    assert [second is first, await snapshots.get_fresh(VERSION) is first] == [True, False]


async def test_snapshot_requested_before_a_change_is_not_used_after_it(
    monkeypatch: pytest.MonkeyPatch, upstream: Upstream, snapshots: MetadataSnapshots
) -> None:
    """Not even if the request was in flight."""
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 60.0)

    upstream.may_answer.clear()
    on_its_way = asyncio.ensure_future(snapshots.get_fresh(VERSION))
    await until(lambda: upstream.asked)
    advance(0.001)
    snapshots.invalidate()
    upstream.may_answer.set()
    await on_its_way
    is_fresh = snapshots.is_fresh(VERSION)
    upstream.now = metadata(topic("b"))
    advance(0.001)
    assert (is_fresh, list((await snapshots.get_fresh(VERSION)).topics)) == (False, ["b"])


async def test_cancelled_caller_does_not_cancel_the_request(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
    upstream.may_answer.clear()
    impatient, patient = (asyncio.ensure_future(snapshots.get_fresh(VERSION)) for _ in range(2))
    await settle()
    impatient.cancel()
    await settle()
    upstream.may_answer.set()
    assert list((await patient).topics) == ["a"]


async def test_next_caller_retries_unavailable_brokers(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
    upstream.is_away = True
    with pytest.raises(UpstreamUnavailableError):
        await snapshots.get_fresh(VERSION)
    upstream.is_away = False
    assert list((await snapshots.get_fresh(VERSION)).topics) == ["a"]


async def test_unreadable_response_is_reported_as_unavailable(upstream: Upstream, snapshots: MetadataSnapshots) -> None:
    upstream.now = MetadataBytes(VERSION, upstream.now.body[:-20])
    with pytest.raises(UpstreamUnavailableError, match="cannot be read"):
        await snapshots.get_fresh(VERSION)


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
