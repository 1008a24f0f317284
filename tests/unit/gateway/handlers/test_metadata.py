"""Metadata from snapshots: the upstream's topics with the gateway's addresses."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers import metadata as metadata_handler
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.handlers.metadata import Metadata
from sharegroup.gateway.upstream import metadata_snapshots
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.headers import RequestHeader, decode_response, encode_pieces, encode_response
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.passthrough_cases import alice_may
from tests.unit.gateway.scripted_upstream import ALICE, EVERYTHING_ALLOWED, ScriptedUpstream
from tests.unit.gateway.wire.test_metadata_bytes import response, topic

_Asked = MetadataRequest.MetadataRequestTopic
UPSTREAM_VERSION = 13
TOPICS = {name: topic(name, partitions) for name, partitions in (("orders", 3), ("bills", 1), ("secret", 2))}
NO_ID = uuid.UUID(int=0)


class Upstream(ScriptedUpstream):
    """An upstream with TOPICS; `asked` has the requests that a snapshot did not answer."""

    def __init__(self, newest: int = UPSTREAM_VERSION) -> None:
        super().__init__({"MetadataRequest": self._metadata}, {MetadataRequest.API_KEY: newest})
        self.newest, self.snapshots_asked = newest, 0
        self.there = dict(TOPICS)

    async def snapshot(self, version: int | None) -> MetadataBytes:
        self.snapshots_asked += 1
        common = min(self.newest, self.newest if version is None else version)
        encoded = memoryview(encode_response(response(list(self.there.values())), common, 7))
        return decode_response(MetadataBytes, common, encoded[4:])

    def _metadata(self, request: Any) -> MetadataResponse:
        if request.topics is None:
            return response(list(self.there.values()))
        by_id = {found.topic_id: found for found in self.there.values()}
        return response([self._named(asked) if asked.name else by_id.get(asked.topic_id) or self._unknown_id(asked)
                         for asked in request.topics])  # fmt: skip

    def _named(self, asked: Any) -> Any:
        return self.there.get(asked.name) or MetadataResponse.MetadataResponseTopic(
            error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name=asked.name, topic_id=NO_ID, partitions=[]
        )

    @staticmethod
    def _unknown_id(asked: Any) -> Any:
        return MetadataResponse.MetadataResponseTopic(
            error_code=int(ErrorCode.UNKNOWN_TOPIC_ID), name=None, topic_id=asked.topic_id, partitions=[]
        )

    def topic_id(self, name: str, from_broker: uuid.UUID | None) -> uuid.UUID:
        return from_broker if from_broker not in (None, NO_ID) else uuid.uuid5(uuid.NAMESPACE_URL, name)


async def no_new_ports() -> None:
    """Open no ports, because all brokers have theirs."""


class Gateway:
    """A gateway that answers Metadata requests on one event loop."""

    def __init__(self, upstream: Upstream, security: Authorization = EVERYTHING_ALLOWED) -> None:
        listeners = Listeners("gateway")
        for node_id in range(2):
            listeners.add(node_id, 9192 + node_id)
        apis = ClusterApis(upstream, listeners, no_new_ports, security)  # type: ignore[arg-type]
        self.snapshots = MetadataSnapshots(upstream.snapshot)
        self._handler = Metadata(apis, self.snapshots, security)

    async def ask(self, topics: list[Any] | None, version: int, **fields: Any) -> MetadataResponse:
        message = MetadataRequest(topics=topics, **fields)
        body = MetadataRequest.decode(bytes(message.encode(version=version)), version=version)
        header = RequestHeader(MetadataRequest.API_KEY, version, 7, "client", 0)
        answer = await self._handler(Request(header, body, ALICE))
        encoded = memoryview(b"".join(encode_pieces(answer, version, 7)))
        found: MetadataResponse = decode_response(MetadataResponse, version, encoded[4:])
        return found


def ask(upstream: Upstream, topics: list[Any] | None, version: int, security: Authorization = EVERYTHING_ALLOWED,
        **fields: Any) -> MetadataResponse:  # fmt: skip
    """Return the response of a gateway with a fresh snapshot."""

    async def main() -> MetadataResponse:
        gateway = Gateway(upstream, security)
        await gateway.snapshots.get_fresh(version)
        return await gateway.ask(topics, version, **fields)

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def _snapshots_stay_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a snapshot fresh however slow the machine is; tests of stale ones set 0."""
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", float("inf"))


def told(found: MetadataResponse) -> dict[str | None, tuple[int, int]]:
    """Return {topic: (error code, number of partitions)}."""
    return {each.name: (each.error_code, len(each.partitions)) for each in found.topics}


def named(*names: str) -> list[Any]:
    return [_Asked(name=name, topic_id=NO_ID) for name in names]


def may_see(*topics: str) -> Authorization:
    return alice_may(*(f"Describe topic {name}" for name in topics))


@pytest.mark.parametrize("version", range(14))
def test_all_topics_with_the_gateways_addresses(version: int) -> None:
    upstream = Upstream()
    found = ask(upstream, [] if version == 0 else None, version)
    assert told(found) == {"orders": (0, 3), "bills": (0, 1), "secret": (0, 2)}
    assert [(broker.node_id, broker.host, broker.port) for broker in found.brokers] == [
        (0, "gateway", 9192),
        (1, "gateway", 9193),
    ]
    if version >= 10:
        assert [each.topic_id for each in found.topics] == [each.topic_id for each in TOPICS.values()]
    assert not upstream.asked
    assert upstream.snapshots_asked == 1


@pytest.mark.parametrize("version", range(14))
def test_only_topics_missing_in_the_snapshot_are_requested(version: int) -> None:
    upstream = Upstream()
    found = ask(upstream, named("bills", "missing", "bills"), version)
    assert told(found) == {"bills": (0, 1), "missing": (3, 0)}
    assert len(found.topics) == 2
    assert [[each.name for each in request.topics] for request in upstream.asked] == [["missing"]]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_returned_by_id(version: int) -> None:
    upstream = Upstream()
    unknown = uuid.UUID(int=99)
    asked = [_Asked(name=None, topic_id=TOPICS["orders"].topic_id), _Asked(name=None, topic_id=unknown)]
    found = ask(upstream, asked, version)
    assert told(found) == {"orders": (0, 3), None: (int(ErrorCode.UNKNOWN_TOPIC_ID), 0)}
    assert [[each.topic_id for each in request.topics] for request in upstream.asked] == [[unknown]]


@pytest.mark.parametrize("version", [1, 9, 12, 13])
def test_request_without_topics_needs_no_snapshot(version: int) -> None:
    async def main() -> tuple[int, int]:
        upstream = Upstream()
        found = await Gateway(upstream).ask([], version)
        return len(found.brokers), upstream.snapshots_asked

    assert asyncio.run(main()) == (2, 0)


def test_authorized_operations_are_requested_from_the_upstream() -> None:
    upstream = Upstream()
    ask(upstream, named("bills"), 12, include_topic_authorized_operations=True)
    assert [request.include_topic_authorized_operations for request in upstream.asked] == [True]


@pytest.mark.parametrize("newest", [9, 11])
def test_responses_of_older_brokers_are_converted(newest: int) -> None:
    """Their responses are converted to the client's version."""
    upstream = Upstream(newest)
    assert told(ask(upstream, None, 12)) == {"orders": (0, 3), "bills": (0, 1), "secret": (0, 2)}
    assert len(upstream.asked) == 1


def test_topics_without_ids_get_ids() -> None:
    upstream = Upstream()
    upstream.there = {
        "a": MetadataResponse.MetadataResponseTopic(error_code=0, name="a", topic_id=NO_ID, partitions=[])
    }
    (found,) = ask(upstream, None, 12).topics
    assert found.topic_id == uuid.uuid5(uuid.NAMESPACE_URL, "a")


def test_small_topics_are_requested_separately_if_the_snapshot_is_stale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 0.0)
    upstream = Upstream()
    assert told(ask(upstream, named("bills"), 12)) == {"bills": (0, 1)}
    assert [[each.name for each in request.topics] for request in upstream.asked] == [["bills"]]
    assert upstream.snapshots_asked == 1


def test_large_topics_refresh_a_stale_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_snapshots, "FRESH_S", 0.0)
    monkeypatch.setattr(metadata_handler, "LARGE_BYTES", 10)
    upstream = Upstream()
    assert told(ask(upstream, named("bills"), 12)) == {"bills": (0, 1)}
    assert not upstream.asked
    assert upstream.snapshots_asked == 2


# -- visible topics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [0, 1_000])
@pytest.mark.parametrize("version", [0, 4, 9, 13])
def test_listing_has_only_topics_that_the_caller_may_see(
    monkeypatch: pytest.MonkeyPatch, version: int, many: int
) -> None:
    monkeypatch.setattr(metadata_handler, "MANY_TOPICS", many)
    found = ask(Upstream(), [] if version == 0 else None, version, may_see("orders", "bills"))
    assert told(found) == {"orders": (0, 3), "bills": (0, 1)}


@pytest.mark.parametrize("version", [1, 9, 13])
def test_hidden_topic_requested_by_name_is_an_authorization_error(version: int) -> None:
    found = ask(Upstream(), named("secret", "bills"), version, may_see("bills"))
    assert told(found) == {"bills": (0, 1), "secret": (int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0)}
    if version >= 10:
        assert {each.name: each.topic_id for each in found.topics}["secret"] in (NO_ID, None)


def test_hidden_topic_requested_by_id_is_unknown() -> None:
    asked = [_Asked(name=None, topic_id=TOPICS["secret"].topic_id)]
    found = ask(Upstream(), asked, 12, may_see("bills"))
    assert told(found) == {None: (int(ErrorCode.UNKNOWN_TOPIC_ID), 0)}
