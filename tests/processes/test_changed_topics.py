"""After a DeleteTopics or CreatePartitions of a client, the gateway reads the topics from the brokers again."""

from __future__ import annotations

import pytest

from sharegroup.gateway.handlers import passthrough_requests
from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.passthrough import CREATE_PARTITIONS, DELETE_TOPICS
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from tests.processes.served_clients import NODE_ID, Serve


@pytest.mark.parametrize("api_key", [DELETE_TOPICS, CREATE_PARTITIONS])
async def test_topics_are_refreshed_twice_after_a_change(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, api_key: int
) -> None:
    monkeypatch.setattr(passthrough_requests, "SECOND_REFRESH_S", 0.0)
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)
    gateway, _ = await serve()
    asked: list[object] = []

    async def metadata(names: object = None) -> object:
        asked.append(names)
        raise UpstreamUnavailableError("away")

    monkeypatch.setattr(gateway.parts.cluster, "_metadata", metadata)
    monkeypatch.setitem(gateway.parts.cluster._connections._addresses, NODE_ID, ("127.0.0.1", 1))
    passthrough = gateway.parts.pass_through.create_link(NODE_ID)
    passthrough._topics_changed(api_key)
    passthrough._topics_changed(api_key)  # the refresh in progress is sufficient
    assert gateway.parts.pass_through._refreshing is not None
    await gateway.parts.pass_through._refreshing
    assert asked == [None, None]
